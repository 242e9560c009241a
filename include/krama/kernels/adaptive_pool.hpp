// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>

#include <krama/kernels/vector_math.hpp>
#include <krama/kernels/window.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Means over windows that follow from the sizes of what goes in and comes out.
namespace krama::kernels {

/// Elements [begin, end) of an axis.
struct AxisPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// The o-th of `parts` windows over `size` elements: from floor(o size / parts) to
  /// ceil((o + 1) size / parts) (PyTorch's rule). Windows overlap where `parts` does not divide
  /// `size`; no element is left out, none is empty.
  ///
  /// Which windows hold element i is answered by the same formula with the roles exchanged: o is
  /// among them exactly if o size / parts < i + 1 and (o + 1) size / parts > i.
  KOKKOS_FUNCTION static AxisPart of(std::int64_t o, std::int64_t parts, std::int64_t size) {
    return {o * size / parts, ((o + 1) * size + parts - 1) / parts};
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t size() const { return end - begin; }
};

/// Sizes of images before and after.
struct AdaptiveSizes {
  std::int64_t images = 0;
  std::int64_t in_h = 0;
  std::int64_t in_w = 0;
  std::int64_t out_h = 0;
  std::int64_t out_w = 0;
};

namespace detail {

template <class T, int Width>
struct AdaptiveAvgForward {
  using A = accum_t<T>;
  AdaptiveSizes s;
  std::int64_t channels;
  const T* x;
  T* y;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const auto run = ChannelRun::of<Width>(item, channels);
    const auto at = Place::of(run.pixel, s.out_h, s.out_w);
    const std::int64_t n = run.size();
    const auto rows = AxisPart::of(at.row, s.out_h, s.in_h);
    const auto columns = AxisPart::of(at.column, s.out_w, s.in_w);
    A sum[static_cast<std::size_t>(Width)] = {};
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const T* from = x + ((at.image * s.in_h + h) * s.in_w + w) * channels + run.begin;
        KRAMA_VECTOR_LOOP
        for (std::int64_t c = 0; c < n; ++c) sum[c] += static_cast<A>(from[c]);
      }
    }
    const A factor = A{1} / static_cast<A>(rows.size() * columns.size());
    T* to = y + run.pixel * channels + run.begin;
    for (std::int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(sum[c] * factor);
  }
};

/// Every pixel collects its share of the windows that hold it, in order: no two items write one.
template <class T, int Width>
struct AdaptiveAvgBackward {
  using A = accum_t<T>;
  AdaptiveSizes s;
  std::int64_t channels;
  const T* dy;
  T* dx;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const auto run = ChannelRun::of<Width>(item, channels);
    const auto at = Place::of(run.pixel, s.in_h, s.in_w);
    const std::int64_t n = run.size();
    const auto rows = AxisPart::of(at.row, s.in_h, s.out_h);
    const auto columns = AxisPart::of(at.column, s.in_w, s.out_w);
    A sum[static_cast<std::size_t>(Width)] = {};
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      const std::int64_t height = AxisPart::of(h, s.out_h, s.in_h).size();
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const std::int64_t width = AxisPart::of(w, s.out_w, s.in_w).size();
        const A factor = A{1} / static_cast<A>(height * width);
        const T* up = dy + ((at.image * s.out_h + h) * s.out_w + w) * channels + run.begin;
        KRAMA_VECTOR_LOOP
        for (std::int64_t c = 0; c < n; ++c) sum[c] += static_cast<A>(up[c]) * factor;
      }
    }
    T* to = dx + run.pixel * channels + run.begin;
    for (std::int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(sum[c]);
  }
};

}  // namespace detail

/// y = mean of each window. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void adaptive_avg_pool(const E& exec, const AdaptiveSizes& s, TensorRef<const T, 4, M> x,
                       TensorRef<T, 4, M> y) {
  constexpr int width = channel_run<E>;
  const std::int64_t channels = x.extent(3);
  kokkos_ext::launch(exec, "krama::kernels::adaptive_avg_pool",
                     s.images * s.out_h * s.out_w * ChannelRun::runs<width>(channels),
                     detail::AdaptiveAvgForward<T, width>{s, channels, x.data(), y.data()});
}

/// dx = sum of dy / size of the window over the windows that hold the pixel. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void adaptive_avg_pool_grad(const E& exec, const AdaptiveSizes& s, TensorRef<const T, 4, M> dy,
                            TensorRef<T, 4, M> dx) {
  constexpr int width = channel_run<E>;
  const std::int64_t channels = dx.extent(3);
  kokkos_ext::launch(exec, "krama::kernels::adaptive_avg_pool_grad",
                     s.images * s.in_h * s.in_w * ChannelRun::runs<width>(channels),
                     detail::AdaptiveAvgBackward<T, width>{s, channels, dy.data(), dx.data()});
}

}  // namespace krama::kernels
