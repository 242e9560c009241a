// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/vector_math.hpp>
#include <krama/kernels/window.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Pools: the largest element, or the mean, of every window of every channel. Backward collects what
/// each pixel is owed, in the order of the taps: no two items write one element.
namespace krama::kernels {

namespace detail {

/// Padding never wins: every window holds a pixel. Of equal elements the first wins; NaN wins over
/// all.
template <class T, int Width>
struct MaxPoolForward {
  using A = accum_t<T>;
  WindowSizes s;
  std::int64_t channels;
  const T* x;
  T* y;
  std::int32_t* winner;  ///< tap of each element of y

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const auto run = ChannelRun::of<Width>(item, channels);
    const auto at = Place::of(run.pixel, s.out_h, s.out_w);
    const std::int64_t n = run.size();
    A best[static_cast<std::size_t>(Width)] = {};
    std::int32_t tap[static_cast<std::size_t>(Width)];
    for (std::int64_t c = 0; c < n; ++c) tap[c] = -1;
    s.for_each_pixel(at, [&](std::int64_t t, const Place& pixel) {
      const T* from = x + s.in_pixel(pixel) * channels + run.begin;
      const auto here = static_cast<std::int32_t>(t);
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < n; ++c) {
        const A v = static_cast<A>(from[c]);
        const bool wins = tap[c] < 0 || v > best[c] || (v != v && best[c] == best[c]);
        best[c] = wins ? v : best[c];
        tap[c] = wins ? here : tap[c];
      }
    });
    const std::int64_t first = run.pixel * channels + run.begin;
    for (std::int64_t c = 0; c < n; ++c) {
      y[first + c] = static_cast<T>(best[c]);
      winner[first + c] = tap[c];
    }
  }
};

template <class T, int Width>
struct MaxPoolBackward {
  using A = accum_t<T>;
  WindowSizes s;
  std::int64_t channels;
  const T* dy;
  const std::int32_t* winner;
  T* dx;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const auto run = ChannelRun::of<Width>(item, channels);
    const auto at = Place::of(run.pixel, s.in_h, s.in_w);
    const std::int64_t n = run.size();
    A sum[static_cast<std::size_t>(Width)] = {};
    s.for_each_place(at, [&](std::int64_t t, const Place& place) {
      const std::int64_t first = s.out_place(place) * channels + run.begin;
      const auto here = static_cast<std::int32_t>(t);
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < n; ++c) {
        sum[c] += winner[first + c] == here ? static_cast<A>(dy[first + c]) : A{0};
      }
    });
    T* to = dx + run.pixel * channels + run.begin;
    for (std::int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(sum[c]);
  }
};

/// Windows of one shape, for means. What the kernels below want of windows: ImageSizes, which pixels
/// belong to a place and the reverse, and the factor of a place's sum.
struct FixedMeans : WindowSizes {
  bool count_padding = true;

  template <class A>
  KOKKOS_FUNCTION A factor(const Place& at) const {
    if (count_padding) return A{1} / static_cast<A>(taps());
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    for (std::int64_t kh = 0; kh < kernel.h; ++kh) {
      const std::int64_t ih = in_row(at.row, kh);
      rows += ih >= 0 && ih < in_h ? 1 : 0;
    }
    for (std::int64_t kw = 0; kw < kernel.w; ++kw) {
      const std::int64_t iw = in_column(at.column, kw);
      columns += iw >= 0 && iw < in_w ? 1 : 0;
    }
    return A{1} / static_cast<A>(rows * columns);
  }
};

template <class T, int Width, class Windows>
struct AvgPoolForward {
  using A = accum_t<T>;
  Windows s;
  std::int64_t channels;
  const T* x;
  T* y;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const auto run = ChannelRun::of<Width>(item, channels);
    const auto at = Place::of(run.pixel, s.out_h, s.out_w);
    const std::int64_t n = run.size();
    A sum[static_cast<std::size_t>(Width)] = {};
    s.for_each_pixel(at, [&](std::int64_t, const Place& pixel) {
      const T* from = x + s.in_pixel(pixel) * channels + run.begin;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < n; ++c) sum[c] += static_cast<A>(from[c]);
    });
    const A factor = s.template factor<A>(at);
    T* to = y + run.pixel * channels + run.begin;
    for (std::int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(sum[c] * factor);
  }
};

template <class T, int Width, class Windows>
struct AvgPoolBackward {
  using A = accum_t<T>;
  Windows s;
  std::int64_t channels;
  const T* dy;
  T* dx;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const auto run = ChannelRun::of<Width>(item, channels);
    const auto at = Place::of(run.pixel, s.in_h, s.in_w);
    const std::int64_t n = run.size();
    A sum[static_cast<std::size_t>(Width)] = {};
    s.for_each_place(at, [&](std::int64_t, const Place& place) {
      const A factor = s.template factor<A>(place);
      const T* up = dy + s.out_place(place) * channels + run.begin;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < n; ++c) sum[c] += static_cast<A>(up[c]) * factor;
    });
    T* to = dx + run.pixel * channels + run.begin;
    for (std::int64_t c = 0; c < n; ++c) to[c] = static_cast<T>(sum[c]);
  }
};

/// y = mean of each window.
template <ExecutionSpace E, class Windows, class T, MemorySpace M>
void pool_means(const E& exec, const char* name, const Windows& s, TensorRef<const T, 4, M> x,
                TensorRef<T, 4, M> y) {
  constexpr int width = channel_run<E>;
  const std::int64_t channels = x.extent(3);
  kokkos_ext::launch(exec, name, s.places() * ChannelRun::runs<width>(channels),
                     AvgPoolForward<T, width, Windows>{s, channels, x.data(), y.data()});
}

/// dx = sum of dy times the factor of its window over the windows that hold the pixel.
template <ExecutionSpace E, class Windows, class T, MemorySpace M>
void pool_means_grad(const E& exec, const char* name, const Windows& s, TensorRef<const T, 4, M> dy,
                     TensorRef<T, 4, M> dx) {
  constexpr int width = channel_run<E>;
  const std::int64_t channels = dx.extent(3);
  kokkos_ext::launch(exec, name, s.in_pixels() * ChannelRun::runs<width>(channels),
                     AvgPoolBackward<T, width, Windows>{s, channels, dy.data(), dx.data()});
}

}  // namespace detail

/// y = largest of each window; `winner` gets the tap that gave it. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void max_pool(const E& exec, const WindowSizes& s, TensorRef<const T, 4, M> x, TensorRef<T, 4, M> y,
              std::int32_t* winner) {
  constexpr int width = channel_run<E>;
  const std::int64_t channels = x.extent(3);
  kokkos_ext::launch(exec, "krama::kernels::max_pool",
                     s.places() * ChannelRun::runs<width>(channels),
                     detail::MaxPoolForward<T, width>{s, channels, x.data(), y.data(), winner});
}

/// dx = sum of dy over the windows that the pixel won. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void max_pool_grad(const E& exec, const WindowSizes& s, TensorRef<const T, 4, M> dy,
                   const std::int32_t* winner, TensorRef<T, 4, M> dx) {
  constexpr int width = channel_run<E>;
  const std::int64_t channels = dx.extent(3);
  kokkos_ext::launch(exec, "krama::kernels::max_pool_grad",
                     s.in_pixels() * ChannelRun::runs<width>(channels),
                     detail::MaxPoolBackward<T, width>{s, channels, dy.data(), winner, dx.data()});
}

/// y = mean of each window; the divisor counts zeros of the padding where `count_padding`.
/// Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void avg_pool(const E& exec, const WindowSizes& s, bool count_padding, TensorRef<const T, 4, M> x,
              TensorRef<T, 4, M> y) {
  detail::pool_means(exec, "krama::kernels::avg_pool", detail::FixedMeans{s, count_padding}, x, y);
}

/// dx = sum of dy / divisor over the windows that hold the pixel. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void avg_pool_grad(const E& exec, const WindowSizes& s, bool count_padding,
                   TensorRef<const T, 4, M> dy, TensorRef<T, 4, M> dx) {
  detail::pool_means_grad(exec, "krama::kernels::avg_pool_grad",
                          detail::FixedMeans{s, count_padding}, dy, dx);
}

}  // namespace krama::kernels
