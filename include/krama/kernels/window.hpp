// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/core/extents.hpp>
#include <krama/kokkos_ext/seam.hpp>

/// Windows that move over images (images, height, width, channels), channels innermost: what
/// convolutions and pools have in common.
namespace krama::kernels {

/// A number for the height and one for the width, in pixels; from a single number: both.
struct Size2 {
  std::int64_t h = 1;
  std::int64_t w = 1;

  Size2() = default;
  Size2(std::int64_t both) : h(both), w(both) {}  // NOLINT: kernel = 3 reads better than {3, 3}
  Size2(std::int64_t height, std::int64_t width) : h(height), w(width) {}
};

/// Places of a window along one axis; 0 when it fits nowhere.
inline std::int64_t window_places(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding, std::int64_t dilation) {
  const std::int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

/// Image, row and column of the p-th pixel (or place) of images of h rows and w columns.
struct Place {
  std::int64_t image = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  KOKKOS_FUNCTION static Place of(std::int64_t p, std::int64_t h, std::int64_t w) {
    const std::int64_t line = p / w;
    const std::int64_t image = line / h;
    return {image, line - image * h, p - line * w};
  }
};

/// Sizes of images before windows (pixels) and after (places).
struct ImageSizes {
  std::int64_t images = 0;
  std::int64_t in_h = 0;
  std::int64_t in_w = 0;
  std::int64_t out_h = 0;
  std::int64_t out_w = 0;

  KOKKOS_FUNCTION std::int64_t in_pixels() const { return images * in_h * in_w; }
  KOKKOS_FUNCTION std::int64_t places() const { return images * out_h * out_w; }

  /// Number of a pixel of the input, of a place of the output.
  KOKKOS_FUNCTION std::int64_t in_pixel(const Place& at) const {
    return (at.image * in_h + at.row) * in_w + at.column;
  }
  KOKKOS_FUNCTION std::int64_t out_place(const Place& at) const {
    return (at.image * out_h + at.row) * out_w + at.column;
  }
};

/// One window over a batch of images. Tap (kh, kw) at place (oh, ow) lies on pixel
/// (oh stride - padding + kh dilation, the same for w), which may be outside the image.
struct WindowSizes : ImageSizes {
  Size2 kernel;
  Size2 stride;
  Size2 padding;
  Size2 dilation;

  KOKKOS_FUNCTION std::int64_t taps() const { return kernel.h * kernel.w; }

  KOKKOS_FUNCTION std::int64_t in_row(std::int64_t oh, std::int64_t kh) const {
    return oh * stride.h - padding.h + kh * dilation.h;
  }
  KOKKOS_FUNCTION std::int64_t in_column(std::int64_t ow, std::int64_t kw) const {
    return ow * stride.w - padding.w + kw * dilation.w;
  }
  /// The place whose tap lies on row `ih` (column `iw`), -1 if there is none.
  KOKKOS_FUNCTION std::int64_t out_row(std::int64_t ih, std::int64_t kh) const {
    return place(ih + padding.h - kh * dilation.h, stride.h, out_h);
  }
  KOKKOS_FUNCTION std::int64_t out_column(std::int64_t iw, std::int64_t kw) const {
    return place(iw + padding.w - kw * dilation.w, stride.w, out_w);
  }

  /// f(tap, pixel) for every tap of the window at place `at` that lies on a pixel, in order.
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_pixel(const Place& at, const F& f) const {
    for (std::int64_t kh = 0; kh < kernel.h; ++kh) {
      const std::int64_t ih = in_row(at.row, kh);
      if (ih < 0 || ih >= in_h) continue;
      for (std::int64_t kw = 0; kw < kernel.w; ++kw) {
        const std::int64_t iw = in_column(at.column, kw);
        if (iw < 0 || iw >= in_w) continue;
        f(kh * kernel.w + kw, Place{at.image, ih, iw});
      }
    }
  }
  /// f(tap, place) for every place one of whose taps lies on pixel `at`, in the order of the taps.
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_place(const Place& at, const F& f) const {
    for (std::int64_t kh = 0; kh < kernel.h; ++kh) {
      const std::int64_t oh = out_row(at.row, kh);
      if (oh < 0) continue;
      for (std::int64_t kw = 0; kw < kernel.w; ++kw) {
        const std::int64_t ow = out_column(at.column, kw);
        if (ow < 0) continue;
        f(kh * kernel.w + kw, Place{at.image, oh, ow});
      }
    }
  }

 private:
  KOKKOS_FUNCTION static std::int64_t place(std::int64_t from, std::int64_t step,
                                            std::int64_t count) {
    if (from < 0) return -1;
    const std::int64_t o = from / step;
    return o * step == from && o < count ? o : -1;
  }
};

/// Channels that one item of a kernel works on: a run that vectorises on hosts, one on devices, where
/// neighbouring threads then read neighbouring channels.
template <ExecutionSpace E>
inline constexpr int channel_run = kokkos_ext::is_host_space<E> ? 32 : 1;

/// An item's run of channels [begin, end) of the pixel (or place) `pixel`.
struct ChannelRun {
  std::int64_t pixel = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  template <int Width>
  KOKKOS_FUNCTION static std::int64_t runs(std::int64_t channels) {
    return (channels + Width - 1) / Width;
  }
  template <int Width>
  KOKKOS_FUNCTION static ChannelRun of(std::int64_t item, std::int64_t channels) {
    const std::int64_t n = runs<Width>(channels);
    ChannelRun r;
    r.pixel = item / n;
    r.begin = (item - r.pixel * n) * Width;
    r.end = r.begin + Width < channels ? r.begin + Width : channels;
    return r;
  }
  KOKKOS_FUNCTION std::int64_t size() const { return end - begin; }
};

}  // namespace krama::kernels
