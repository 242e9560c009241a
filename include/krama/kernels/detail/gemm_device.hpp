// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>
#include <type_traits>

#include <krama/core/concepts.hpp>
#include <krama/kernels/detail/column_major.hpp>
#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kernels/detail/tf32.hpp>
#include <krama/kokkos_ext/seam.hpp>

/// Products by the library of a device's vendor: what is the same for all of them.
namespace krama::kernels::detail {

/// The library that multiplies on `E`. A specialisation sets `exists` and provides, for A float and
/// double,
///   static void run(const E&, const ColumnMajorGemm<A>&)
///   static bool run_with_bias(const E&, const ColumnMajorGemm<A>&, const void* bias)
/// asynchronous on the instance. The second adds a bias of the result's type in the library's
/// epilogue, or does nothing and returns false when the library has none for this product. Both
/// throw Error with the call, the product and the library's words.
template <class E>
struct DeviceBlas {
  static constexpr bool exists = false;
};

/// C = bias in every row: for libraries without an epilogue. The product is then added to it, which
/// rounds once, where a bias added after the product would round a half type twice.
template <class TB, class TC>
struct SpreadBias {
  TC* c;
  std::int64_t n, ldc;
  const TB* bias;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t j = i % n;
    c[i / n * ldc + j] = static_cast<TC>(static_cast<accum_t<TC>>(bias[j]));
  }
};

/// False when there is no library or it does not take this product; nothing has been started then.
/// Always the same way for the same arguments.
template <ExecutionSpace E, class T, class TC>
bool gemm_device(const E& exec, const GemmArgs<T, T, TC>& g, const BatchStrides& strides = {},
                 std::int64_t batch = 1) {
  if constexpr (DeviceBlas<E>::exists) {
    auto call = column_major(g, strides, batch, tf32_allowed());
    if (!call) return false;
    if (g.bias != nullptr) {
      if (batch > 1 || g.beta != accum_t<TC>{0}) return false;
      if constexpr (std::is_same_v<T, TC>) {
        if (kokkos_ext::library_call(exec, "krama::kernels::gemm", [&] {
              return DeviceBlas<E>::run_with_bias(exec, *call, g.bias);
            })) {
          return true;
        }
      }
      kokkos_ext::launch(exec, "krama::kernels::spread_bias", g.m * g.n,
                         SpreadBias<T, TC>{g.c, g.n, g.ldc, g.bias});
      call->beta = 1;
    }
    kokkos_ext::library_call(exec, "krama::kernels::gemm",
                             [&] { DeviceBlas<E>::run(exec, *call); });
    return true;
  } else {
    return false;
  }
}

}  // namespace krama::kernels::detail
