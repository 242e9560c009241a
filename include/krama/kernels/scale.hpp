// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>

#include <krama/kernels/elementwise.hpp>

namespace krama::kernels {

/// x *= factor. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void scale(const E& exec, TensorRef<T, 1, M> x, accum_t<T> factor) {
  T* p = x.data();
  for_each(
      exec, "krama::kernels::scale", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
        p[i] = static_cast<T>(static_cast<accum_t<T>>(p[i]) * factor);
      });
}

}  // namespace krama::kernels
