// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/vector_math.hpp>
#include <krama/kernels/window.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Sums of many rows in fixed blocks, joined in the order of the blocks: bits depend on the shape
/// alone. For matrices with far more rows than columns, where a thread per column would be few.
namespace krama::kernels {

/// How rows are cut into blocks.
struct RowBlocks {
  std::int64_t rows = 0;
  std::int64_t count = 0;
  std::int64_t size = 0;

  static RowBlocks of(std::int64_t rows, std::int64_t smallest = 64, std::int64_t most = 256) {
    const std::int64_t wanted = (rows + smallest - 1) / smallest;
    const std::int64_t count = wanted < most ? (wanted < 1 ? 1 : wanted) : most;
    const std::int64_t size = (rows + count - 1) / count;
    return {rows, count, size < 1 ? 1 : size};
  }
  KOKKOS_FUNCTION std::int64_t begin(std::int64_t b) const {
    return b * size < rows ? b * size : rows;
  }
  KOKKOS_FUNCTION std::int64_t end(std::int64_t b) const {
    return (b + 1) * size < rows ? (b + 1) * size : rows;
  }
};

namespace detail {

template <class T, int Width>
struct BlockColumnSums {
  using A = accum_t<T>;
  const T* x;
  A* partial;  ///< (blocks, columns)
  RowBlocks blocks;
  std::int64_t columns;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const ChannelRun r = ChannelRun::of<Width>(item, columns);
    A sum[static_cast<std::size_t>(Width)] = {};
    const std::int64_t last = blocks.end(r.pixel);
    for (std::int64_t i = blocks.begin(r.pixel); i < last; ++i) {
      const T* row = x + i * columns + r.begin;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < r.size(); ++c) sum[c] += static_cast<A>(row[c]);
    }
    for (std::int64_t c = 0; c < r.size(); ++c) partial[r.pixel * columns + r.begin + c] = sum[c];
  }
};

template <class A, int Width>
struct JoinColumnSums {
  const A* partial;
  A* to;
  std::int64_t blocks;
  std::int64_t columns;

  KOKKOS_FUNCTION void operator()(std::int64_t run) const {
    const ChannelRun r = ChannelRun::of<Width>(run, columns);
    A sum[static_cast<std::size_t>(Width)] = {};
    for (std::int64_t b = 0; b < blocks; ++b) {
      const A* row = partial + b * columns + r.begin;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < r.size(); ++c) sum[c] += row[c];
    }
    for (std::int64_t c = 0; c < r.size(); ++c) to[r.begin + c] += sum[c];
  }
};

}  // namespace detail

/// to (columns) += the sums of partial (blocks, columns), block after block. Asynchronous on `exec`.
template <ExecutionSpace E, class A>
void join_blocks(const E& exec, const char* label, const A* partial, A* to, std::int64_t blocks,
                 std::int64_t columns) {
  constexpr int width = channel_run<E>;
  kokkos_ext::launch(exec, label, ChannelRun::runs<width>(columns),
                     detail::JoinColumnSums<A, width>{partial, to, blocks, columns});
}

/// Elements of accum_t<T> that `column_sums` wants as scratch.
inline std::int64_t column_sums_scratch(std::int64_t rows, std::int64_t columns) {
  return checked_product(RowBlocks::of(rows).count, columns);
}

/// to (columns) += column sums of x (rows, columns). Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void column_sums(const E& exec, const char* label, TensorRef<const T, 2, M> x, accum_t<T>* to,
                 accum_t<T>* scratch) {
  constexpr int width = channel_run<E>;
  const RowBlocks blocks = RowBlocks::of(x.extent(0));
  const std::int64_t columns = x.extent(1);
  kokkos_ext::launch(exec, label, blocks.count * ChannelRun::runs<width>(columns),
                     detail::BlockColumnSums<T, width>{x.data(), scratch, blocks, columns});
  join_blocks(exec, label, static_cast<const accum_t<T>*>(scratch), to, blocks.count, columns);
}

}  // namespace krama::kernels
