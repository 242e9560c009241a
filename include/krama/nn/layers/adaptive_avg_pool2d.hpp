// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/adaptive_pool.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::Size2;

/// Means that make images of any size (images, height, width, channels) ones of the size `output`. The
/// window of row o begins at floor(o height / output.h) and ends before ceil((o + 1) height /
/// output.h), columns likewise (PyTorch's rule): windows overlap where the sizes do not divide, and
/// repeat pixels where the output is larger. dx = sum of dy / (size of the window) over the windows
/// that hold the pixel. Saves nothing.
struct AdaptiveAvgPool2d {
  Size2 output = 1;

  static constexpr std::string_view type_name = "adaptive_avg_pool2d";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank = 4;

  [[nodiscard]] Shape out(const Shape& in) const {
    const auto s = sizes(in);
    return {in[0], s.out_h, s.out_w, in[3]};
  }
  /// An addition for every element of every window.
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    const auto s = sizes(in);
    return in[0] * in[3] * elements(s.out_h, s.in_h) * elements(s.out_w, s.in_w);
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 4, D> y) const {
    kernels::adaptive_avg_pool(ctx.exec(), sizes(Shape(x.extents())), x, y);
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<AdaptiveAvgPool2d, D, T>& /*saved*/,
                Ref<const T, 4, D> dy, Ref<T, 4, D> dx) const {
    if (dx.null()) return;
    kernels::adaptive_avg_pool_grad(ctx.exec(), sizes(Shape(dx.extents())), dy, dx);
  }

 private:
  [[nodiscard]] kernels::ImageSizes sizes(const Shape& in) const {
    KRAMA_EXPECTS(output.h > 0 && output.w > 0,
                  "adaptive_avg_pool2d: the output's size must be positive, found {} x {}",
                  output.h, output.w);
    KRAMA_EXPECTS(
        in.rank() == 4 && in[1] > 0 && in[2] > 0,
        "adaptive_avg_pool2d: wanted an input (images, height, width, channels), found {}",
        to_string(in));
    return {in[0], in[1], in[2], output.h, output.w};
  }
  static std::int64_t elements(std::int64_t parts, std::int64_t size) {
    std::int64_t n = 0;
    for (std::int64_t o = 0; o < parts; ++o) n += kernels::AxisPart::of(o, parts, size).size();
    return n;
  }
};

}  // namespace krama::nn
