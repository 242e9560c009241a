// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/window.hpp>

namespace krama::kernels {

/// A convolution: x (images, in_h, in_w, in_channels), weights (out_channels, kernel.h, kernel.w,
/// in_channels / groups), y (images, out_h, out_w, out_channels). Output channel o reads the input
/// channels of group o / (out_channels / groups).
struct ConvSizes {
  WindowSizes window;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t groups = 1;

  KOKKOS_FUNCTION std::int64_t group_in() const { return in_channels / groups; }
  KOKKOS_FUNCTION std::int64_t group_out() const { return out_channels / groups; }
  /// What one output channel reads at one place.
  KOKKOS_FUNCTION std::int64_t depth() const { return window.taps() * group_in(); }
  /// What all output channels read at one place, ordered (group, kh, kw, channel of the group).
  KOKKOS_FUNCTION std::int64_t patch() const { return window.taps() * in_channels; }

  /// A product and its addition for every weight at every place; padding is counted.
  [[nodiscard]] std::int64_t flops() const {
    return checked_product(2 * window.places(), checked_product(depth(), out_channels));
  }
  /// One tap, exactly on the pixel of its place: a product of matrices as it stands.
  [[nodiscard]] bool pointwise() const {
    return window.taps() == 1 && window.in_h == window.out_h && window.in_w == window.out_w &&
           window.stride.h == 1 && window.stride.w == 1 && window.padding.h == 0 &&
           window.padding.w == 0;
  }
  /// Every output channel reads one input channel: products of matrices would be one column deep.
  [[nodiscard]] bool depthwise() const { return groups > 1 && group_in() == 1; }
};

namespace detail {

/// The part of a convolution whose patches are in memory at once: whole images while several fit,
/// else rows of places of one image.
struct ConvTile {
  std::int64_t first_image = 0;
  std::int64_t images = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< of places, per image

  KOKKOS_FUNCTION std::int64_t places(const ConvSizes& s) const {
    return images * rows * s.window.out_w;
  }
  /// Number of the first place, counted over all images.
  KOKKOS_FUNCTION std::int64_t first_place(const ConvSizes& s) const {
    return (first_image * s.window.out_h + first_row) * s.window.out_w;
  }
};

/// Bytes of patches that are made at a time, unless a single row of places is larger.
inline constexpr std::int64_t conv_tile_bytes = std::int64_t{8} << 20;

/// The largest tile; a function of the sizes alone, so that sums over tiles always give the same
/// bits.
template <class A>
ConvTile largest_tile(const ConvSizes& s) {
  const auto& w = s.window;
  const std::int64_t row = checked_product(checked_product(w.out_w, s.patch()), sizeof(A));
  const std::int64_t image = checked_product(row, w.out_h);
  if (image == 0) return {0, w.images, 0, w.out_h};
  if (image <= conv_tile_bytes) {
    const std::int64_t fit = conv_tile_bytes / image;
    return {0, fit < w.images ? fit : w.images, 0, w.out_h};
  }
  const std::int64_t fit = conv_tile_bytes / row;
  return {0, 1, 0, fit < 1 ? 1 : fit};
}

/// f(tile) for all parts of the convolution, in order.
template <class A, class F>
void for_each_tile(const ConvSizes& s, const F& f) {
  const ConvTile largest = largest_tile<A>(s);
  if (s.window.places() == 0) return;
  for (std::int64_t n = 0; n < s.window.images; n += largest.images) {
    const std::int64_t images =
        n + largest.images < s.window.images ? largest.images : s.window.images - n;
    for (std::int64_t r = 0; r < s.window.out_h; r += largest.rows) {
      const std::int64_t rows =
          r + largest.rows < s.window.out_h ? largest.rows : s.window.out_h - r;
      f(ConvTile{n, images, r, rows});
    }
  }
}

}  // namespace detail
}  // namespace krama::kernels
