// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/vector_math.hpp>

/// Rows of a table chosen by index, and the sum back. The gradient of a table row is the sum over
/// the batch's rows that used it, always added in the order of the rows, by one owner and without
/// atomics: the bits depend on neither threads nor scheduling. Indices must lie in the table;
/// whoever assembles batches checks that, kernels only assert it.
namespace krama::kernels {

namespace detail {

template <class T>
struct Embed {
  using A = accum_t<T>;
  const std::int32_t* ids;
  const T* table;
  const T* positions;  ///< (time, features) or null
  T* y;
  std::int64_t time;
  std::int64_t features;
  std::int64_t vocabulary;
  std::int64_t width;  ///< columns of one call

  /// Columns [chunk * width, …) of one row.
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t chunks = (features + width - 1) / width;
    const std::int64_t row = i / chunks;
    const std::int64_t begin = i % chunks * width;
    const std::int64_t end = begin + width < features ? begin + width : features;
    KRAMA_ASSERT(ids[row] >= 0 && ids[row] < vocabulary);
    const T* from = table + ids[row] * features;
    T* to = y + row * features;
    if (positions == nullptr) {
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = begin; c < end; ++c) to[c] = from[c];
    } else {
      const T* p = positions + row % time * features;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = begin; c < end; ++c) {
        to[c] = static_cast<T>(static_cast<A>(from[c]) + static_cast<A>(p[c]));
      }
    }
  }
};

/// Hosts: a strip of columns of the whole table belongs to one thread.
template <class T>
struct EmbedGradStrip {
  using A = accum_t<T>;
  static constexpr std::int64_t width = 64;
  const std::int32_t* ids;
  const T* dy;
  A* d_table;
  std::int64_t rows;
  std::int64_t features;
  std::int64_t vocabulary;

  KOKKOS_FUNCTION void operator()(std::int64_t strip) const {
    const std::int64_t begin = strip * width;
    const std::int64_t end = begin + width < features ? begin + width : features;
    for (std::int64_t r = 0; r < rows; ++r) {
      KRAMA_ASSERT(ids[r] >= 0 && ids[r] < vocabulary);
      A* to = d_table + ids[r] * features;
      const T* from = dy + r * features;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = begin; c < end; ++c) to[c] += static_cast<A>(from[c]);
    }
  }
};

/// Devices: links each row to the next one with the same index; `next` is -1 at the end, and a row
/// that an earlier one links to is marked as not the first.
struct EmbedLinks {
  const std::int32_t* ids;
  std::int32_t* next;
  std::int32_t* first;
  std::int64_t rows;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    std::int64_t n = r + 1;
    while (n < rows && ids[n] != ids[r]) ++n;
    next[r] = n < rows ? static_cast<std::int32_t>(n) : -1;
    std::int64_t p = r - 1;
    while (p >= 0 && ids[p] != ids[r]) --p;
    first[r] = p < 0 ? 1 : 0;
  }
};

template <class T>
struct EmbedGradLinked {
  using A = accum_t<T>;
  const std::int32_t* ids;
  const std::int32_t* next;
  const std::int32_t* first;
  const T* dy;
  A* d_table;
  std::int64_t features;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t row = i / features;
    const std::int64_t c = i % features;
    if (first[row] == 0) return;
    A* to = d_table + ids[row] * features + c;
    A sum = *to;
    for (std::int64_t r = row; r >= 0; r = next[r]) sum += static_cast<A>(dy[r * features + c]);
    *to = sum;
  }
};

template <class T>
struct PositionGrad {
  using A = accum_t<T>;
  const T* dy;
  A* d_positions;
  std::int64_t batch;
  std::int64_t time;
  std::int64_t features;
  std::int64_t width;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t chunks = (features + width - 1) / width;
    const std::int64_t t = i / chunks;
    const std::int64_t begin = i % chunks * width;
    const std::int64_t end = begin + width < features ? begin + width : features;
    A* to = d_positions + t * features;
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* from = dy + (b * time + t) * features;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = begin; c < end; ++c) to[c] += static_cast<A>(from[c]);
    }
  }
};

/// Whole rows on hosts, single elements on devices.
template <class E>
std::int64_t embed_width(std::int64_t features) {
  return kokkos_ext::is_host_space<E> ? features : 1;
}
}  // namespace detail

/// y (batch, time, features) = table[ids] (+ positions, unless null). Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void embed(const E& exec, TensorRef<const std::int32_t, 2, M> ids, TensorRef<const T, 2, M> table,
           TensorRef<const T, 2, M> positions, TensorRef<T, 3, M> y) {
  const std::int64_t features = table.extent(1);
  const std::int64_t width = detail::embed_width<E>(features);
  kokkos_ext::launch(exec, "krama::kernels::embed", ids.size() * ((features + width - 1) / width),
                     detail::Embed<T>{ids.data(), table.data(), positions.data(), y.data(),
                                      ids.extent(1), features, table.extent(0), width});
}

/// d_table and d_positions (null: not wanted) += their parts of dy. `links`: scratch of two
/// integers a row of the batch, used on devices. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void embed_grad(const E& exec, TensorRef<const std::int32_t, 2, M> ids, TensorRef<const T, 3, M> dy,
                TensorRef<accum_t<T>, 2, M> d_table, TensorRef<accum_t<T>, 2, M> d_positions,
                std::int32_t* links, bool strips = kokkos_ext::is_host_space<E>) {
  const std::int64_t rows = ids.size();
  const std::int64_t features = dy.extent(2);
  if (!d_table.null() && strips) {
    using Strip = detail::EmbedGradStrip<T>;
    kokkos_ext::launch(
        exec, "krama::kernels::embed_grad", (features + Strip::width - 1) / Strip::width,
        Strip{ids.data(), dy.data(), d_table.data(), rows, features, d_table.extent(0)});
  } else if (!d_table.null()) {
    kokkos_ext::launch(exec, "krama::kernels::embed_links", rows,
                       detail::EmbedLinks{ids.data(), links, links + rows, rows});
    kokkos_ext::launch(exec, "krama::kernels::embed_grad", rows * features,
                       detail::EmbedGradLinked<T>{ids.data(), links, links + rows, dy.data(),
                                                  d_table.data(), features});
  }
  if (!d_positions.null()) {
    const std::int64_t width = detail::embed_width<E>(features);
    kokkos_ext::launch(exec, "krama::kernels::position_grad",
                       ids.extent(1) * ((features + width - 1) / width),
                       detail::PositionGrad<T>{dy.data(), d_positions.data(), ids.extent(0),
                                               ids.extent(1), features, width});
  }
}

}  // namespace krama::kernels
