// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/vector_math.hpp>

namespace krama::kernels {

namespace detail {

/// Host: items are pieces of rows, so that the innermost loop has no division and vectorises.
template <class F>
struct RowPieces {
  F f;
  std::int64_t columns;
  std::int64_t pieces;  ///< per row
  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t row = pieces == 1 ? item : item / pieces;
    const std::int64_t begin = (item - row * pieces) * host_block;
    const std::int64_t end = begin + host_block < columns ? begin + host_block : columns;
    const F local = f;
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = begin; c < end; ++c) local(row, c);
  }
};

template <class F>
struct RowElements {
  F f;
  std::int64_t columns;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { f(i / columns, i % columns); }
};

}  // namespace detail

/// f(row, column) for every element of a (rows, columns) matrix, independent of each other: one
/// thread an element on devices, vectorised pieces of rows on hosts. Asynchronous on `exec`.
template <ExecutionSpace E, class F>
void for_each_2d(const E& exec, const char* label, std::int64_t rows, std::int64_t columns,
                 const F& f) {
  if (columns == 0) return;
  if constexpr (kokkos_ext::is_host_space<E>) {
    const std::int64_t pieces = (columns + detail::host_block - 1) / detail::host_block;
    kokkos_ext::launch(exec, label, rows * pieces, detail::RowPieces<F>{f, columns, pieces});
  } else {
    kokkos_ext::launch(exec, label, rows * columns, detail::RowElements<F>{f, columns});
  }
}

}  // namespace krama::kernels
