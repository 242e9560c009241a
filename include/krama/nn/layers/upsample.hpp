// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/kernels/vector_math.hpp>
#include <krama/kernels/window.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

enum class Interpolation : std::uint8_t { nearest, bilinear };

namespace detail {

/// Position o of the larger extent lies at (o + 1/2) / factor - 1/2 of the smaller one (align_corners
/// = false), held within it: what it takes from where.
struct UpsampleAxis {
  std::int64_t size;  ///< of the smaller extent
  std::int64_t factor;
  bool linear;

  /// The two positions that o takes from (the same one twice where it takes from one), and the share
  /// of the second.
  KOKKOS_FUNCTION void taps(std::int64_t o, std::int64_t& low, std::int64_t& high,
                            double& share) const {
    low = o / factor;
    high = low;
    share = 0.0;
    if (!linear) return;
    // In units of 1 / (2 factor), so that nothing rounds before the share.
    const std::int64_t at = 2 * o + 1 - factor;
    low = at > 0 ? at / (2 * factor) : 0;
    high = low + 1 < size ? low + 1 : low;
    share =
        at > 0 ? static_cast<double>(at - 2 * factor * low) / static_cast<double>(2 * factor) : 0.0;
  }
  /// What o takes from position i.
  KOKKOS_FUNCTION double share_of(std::int64_t o, std::int64_t i) const {
    std::int64_t low = 0;
    std::int64_t high = 0;
    double share = 0.0;
    taps(o, low, high, share);
    return (i == low ? 1.0 - share : 0.0) + (i == high ? share : 0.0);
  }
  /// The positions that take from i lie in [first, last).
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t first(std::int64_t i) const {
    const std::int64_t from = linear ? i - 1 : i;
    return from > 0 ? from * factor : 0;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t last(std::int64_t i) const {
    const std::int64_t to = linear ? i + 2 : i + 1;
    return (to < size ? to : size) * factor;
  }
};

/// One item: W channels of one pixel of the larger image.
template <class T, int W>
struct UpsampleForward {
  using A = accum_t<T>;
  const T* x;
  T* y;
  UpsampleAxis h;
  UpsampleAxis w;
  std::int64_t channels;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto run = kernels::ChannelRun::of<W>(i, channels);
    const auto at = kernels::Place::of(run.pixel, h.size * h.factor, w.size * w.factor);
    const std::int64_t count = run.size();
    std::int64_t h0 = 0, h1 = 0, w0 = 0, w1 = 0;
    double dh = 0.0, dw = 0.0;
    h.taps(at.row, h0, h1, dh);
    w.taps(at.column, w0, w1, dw);
    const T* base = x + at.image * h.size * w.size * channels + run.begin;
    const T* p00 = base + (h0 * w.size + w0) * channels;
    const T* p01 = base + (h0 * w.size + w1) * channels;
    const T* p10 = base + (h1 * w.size + w0) * channels;
    const T* p11 = base + (h1 * w.size + w1) * channels;
    T* to = y + run.pixel * channels + run.begin;
    if (!w.linear) {
      for (std::int64_t k = 0; k < count; ++k) to[k] = p00[k];
      return;
    }
    const A a00 = static_cast<A>((1.0 - dh) * (1.0 - dw)), a01 = static_cast<A>((1.0 - dh) * dw);
    const A a10 = static_cast<A>(dh * (1.0 - dw)), a11 = static_cast<A>(dh * dw);
    KRAMA_VECTOR_LOOP
    for (std::int64_t k = 0; k < count; ++k) {
      to[k] = static_cast<T>(a00 * static_cast<A>(p00[k]) + a01 * static_cast<A>(p01[k]) +
                             a10 * static_cast<A>(p10[k]) + a11 * static_cast<A>(p11[k]));
    }
  }
};

/// One item: W channels of one pixel of the smaller image gather what came from it, in order.
template <class T, int W>
struct UpsampleBackward {
  using A = accum_t<T>;
  const T* dy;
  T* dx;
  UpsampleAxis h;
  UpsampleAxis w;
  std::int64_t channels;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto run = kernels::ChannelRun::of<W>(i, channels);
    const auto at = kernels::Place::of(run.pixel, h.size, w.size);
    const std::int64_t count = run.size();
    const std::int64_t width = w.size * w.factor;
    const T* base = dy + at.image * h.size * h.factor * width * channels + run.begin;
    A sum[std::size_t{W}] = {};
    for (std::int64_t oh = h.first(at.row); oh < h.last(at.row); ++oh) {
      const double sh = h.share_of(oh, at.row);
      for (std::int64_t ow = w.first(at.column); ow < w.last(at.column); ++ow) {
        const A share = static_cast<A>(sh * w.share_of(ow, at.column));
        if (share != A{0}) add(base + (oh * width + ow) * channels, share, sum, count);
      }
    }
    T* to = dx + run.pixel * channels + run.begin;
    for (std::int64_t k = 0; k < count; ++k) to[k] = static_cast<T>(sum[k]);
  }
  KOKKOS_FUNCTION void add(const T* from, A share, A* sum, std::int64_t count) const {
    KRAMA_VECTOR_LOOP
    for (std::int64_t k = 0; k < count; ++k) sum[k] += share * static_cast<A>(from[k]);
  }
};

}  // namespace detail

/// Images (images, height, width, channels) made `factor` times as high and wide. Nearest repeats
/// pixels; bilinear takes the four nearest pixels' centres (align_corners = false in PyTorch's terms),
/// at the border fewer. dx gathers, so its sums have one order and need no atomics. Saves nothing.
struct Upsample {
  std::int64_t factor = 2;
  Interpolation mode = Interpolation::nearest;

  static constexpr std::string_view type_name = "upsample";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank = 4;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(factor >= 1, "upsample: the factor must be at least 1, not {}", factor);
    KRAMA_EXPECTS(in.rank() == 4 && in[1] > 0 && in[2] > 0,
                  "upsample: the input must be (images, height, width, channels), found {}",
                  to_string(in));
    return in.with(1, checked_product(in[1], factor)).with(2, checked_product(in[2], factor));
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 4, D> y) const {
    constexpr int w = kernels::channel_run<exec_of<D>>;
    const std::int64_t runs = kernels::ChannelRun::runs<w>(x.extent(3));
    kokkos_ext::launch(ctx.exec(), "krama::nn::upsample::forward",
                       y.extent(0) * y.extent(1) * y.extent(2) * runs,
                       detail::UpsampleForward<T, w>{x.data(), y.data(), axis(x.extent(1)),
                                                     axis(x.extent(2)), x.extent(3)});
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Upsample, D, T>& /*saved*/,
                Ref<const T, 4, D> dy, Ref<T, 4, D> dx) const {
    if (dx.null()) return;
    constexpr int w = kernels::channel_run<exec_of<D>>;
    const std::int64_t runs = kernels::ChannelRun::runs<w>(dx.extent(3));
    kokkos_ext::launch(ctx.exec(), "krama::nn::upsample::backward",
                       dx.extent(0) * dx.extent(1) * dx.extent(2) * runs,
                       detail::UpsampleBackward<T, w>{dy.data(), dx.data(), axis(dx.extent(1)),
                                                      axis(dx.extent(2)), dx.extent(3)});
  }

 private:
  [[nodiscard]] detail::UpsampleAxis axis(std::int64_t size) const {
    return {size, factor, mode == Interpolation::bilinear};
  }
};

}  // namespace krama::nn
