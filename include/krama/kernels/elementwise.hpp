// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>

#include <krama/core/concepts.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

namespace krama::kernels {

namespace detail {
/// Elements per block of a host loop: long enough to amortise the call, short enough to spread.
inline constexpr std::int64_t host_block = 2048;

/// Runs `f(i)` for a block of consecutive i, as one loop that the compiler can vectorise.
template <class F>
struct BlockedLoop {
  F f;
  std::int64_t n;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t begin = block * host_block;
    const std::int64_t end = begin + host_block < n ? begin + host_block : n;
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDA_ARCH__)
#pragma GCC ivdep
#endif
    for (std::int64_t i = begin; i < end; ++i) f(i);
  }
};
}  // namespace detail

/// f(i) for every i in [0, n), independent of each other: one thread an element on devices, blocks
/// of consecutive elements (vectorised) on hosts. Asynchronous on `exec`.
template <ExecutionSpace E, class F>
void for_each(const E& exec, const char* label, std::int64_t n, const F& f) {
  if constexpr (kokkos_ext::is_host_space<E>) {
    const std::int64_t blocks = (n + detail::host_block - 1) / detail::host_block;
    kokkos_ext::launch(exec, label, blocks, detail::BlockedLoop<F>{f, n});
  } else {
    kokkos_ext::launch(exec, label, n, f);
  }
}

/// out = a + b; `out` may be one of them. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void add(const E& exec, TensorRef<T, 1, M> out, TensorRef<T, 1, M> a, TensorRef<T, 1, M> b) {
  T* o = out.data();
  const T* p = a.data();
  const T* q = b.data();
  for_each(
      exec, "krama::kernels::add", out.size(), KOKKOS_LAMBDA(std::int64_t i) {
        o[i] = static_cast<T>(static_cast<accum_t<T>>(p[i]) + static_cast<accum_t<T>>(q[i]));
      });
}

}  // namespace krama::kernels
