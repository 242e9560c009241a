// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>

#include <krama/kernels/elementwise.hpp>

namespace krama::kernels {

/// out = factor * (a - b), element by element; `out` may be `a` or `b`. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void scaled_difference(const E& exec, TensorRef<T, 1, M> out, accum_t<T> factor,
                       TensorRef<T, 1, M> a, TensorRef<T, 1, M> b) {
  KRAMA_EXPECTS(out.size() == a.size() && a.size() == b.size(),
                "scaled_difference: {} results of {} and {} elements", out.size(), a.size(),
                b.size());
  T* o = out.data();
  const T* p = a.data();
  const T* q = b.data();
  for_each(
      exec, "krama::kernels::scaled_difference", out.size(), KOKKOS_LAMBDA(std::int64_t i) {
        o[i] = static_cast<T>(factor *
                              (static_cast<accum_t<T>>(p[i]) - static_cast<accum_t<T>>(q[i])));
      });
}

}  // namespace krama::kernels
