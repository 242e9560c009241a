// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kernels/detail/gemm_onednn.hpp>
#include <krama/kernels/detail/gemm_packed.hpp>
#include <krama/kokkos_ext/seam.hpp>

#if KRAMA_PACKED_GEMM
/// Batches of small products on host cores: the threads share out whole products, which costs one
/// start of threads for the batch and no division inside a product.
namespace krama::kernels::detail {

/// Product i of the batch for each index, on the thread that has the index.
template <class T, class TC>
struct BatchedProducts {
  GemmArgs<T, T, TC> first;
  BatchStrides strides;
  GemmDoor door = GemmDoor::packed;

  void operator()(std::int64_t i) const {
    const GemmArgs<T, T, TC> g = product_of_batch(first, strides, i);
    if constexpr (onednn_takes<T, T, TC>) {
      if (door == GemmDoor::onednn && gemm_onednn(g, 1)) return;
    }
    packed_block(g, 0, g.m, 0, g.n);
  }
};

/// A batch is worth sharing out product by product when every thread gets a few of them; fewer are
/// better divided inside.
inline bool shared_by_products(std::int64_t batch, std::int64_t threads) {
  return batch >= 4 * threads || (batch >= threads && batch % threads == 0);
}

/// All products on the threads of `exec`, or on the calling thread when `threads` is 1.
template <ExecutionSpace E, class T, class TC>
void gemm_batched_on_host(const E& exec, const GemmArgs<T, T, TC>& first,
                          const BatchStrides& strides, std::int64_t batch, GemmDoor door,
                          std::int64_t threads) {
  const BatchedProducts<T, TC> products{first, strides, door};
  if (threads <= 1 || batch * first.m * first.n * first.k <= packed_serial_work) {
    kokkos_ext::library_call(exec, "krama::kernels::batched_gemm", [&] {
      for (std::int64_t i = 0; i < batch; ++i) products(i);
    });
    return;
  }
  kokkos_ext::launch(exec, "krama::kernels::batched_gemm", batch, products);
}

}  // namespace krama::kernels::detail
#endif
