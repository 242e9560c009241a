// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/column_sums.hpp>
#include <krama/kernels/conv.hpp>
#include <krama/nn/detail/conv_parts.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::Size2;

/// Transposed convolution ("up-convolution") of images (images, height, width, in_channels) to
/// (images, out_h, out_w, out_channels),
/// out_h = (height - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1: what Conv2d's
/// dx is to its dy. With y the bias where nothing arrives,
///   y(n, ih stride - padding + kh dilation, …, o) += w(c, kh, kw, o) x(n, ih, …, c).
/// The weight is (in_channels, kernel.h, kernel.w, out_channels / groups), that of the convolution
/// that leads back. Forward runs its backward and backward its forward, with Conv2d's kernels and
/// libraries; saves the input. `output_padding` adds rows and columns at the end, where a convolution
/// with a stride forgets how many there were. Scratch as Conv2d.
struct ConvTranspose2d {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  Size2 kernel = 2;
  Size2 stride = 2;
  Size2 padding = 0;  ///< rows and columns cut from each side of the output
  Size2 output_padding = 0;
  Size2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  /// First weights; the bias starts at zero. Default: uniform in
  /// 1/sqrt(kernel.h kernel.w out_channels / groups) (as PyTorch's).
  Init init = {};

  static constexpr std::string_view type_name = "conv_transpose2d";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 4;

  [[nodiscard]] Shape out(const Shape& in) const {
    const auto s = sizes(in);
    return {in[0], s.window.in_h, s.window.in_w, out_channels};
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const { return sizes(in).flops(); }
  void params(ParamSpec& spec) const {
    check();
    detail::conv_params(*this, spec, {in_channels, kernel.h, kernel.w, out_channels / groups});
  }
  template <Device D, class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    const auto s = sizes(in);
    spec.add<accum_t<T>>(kernels::conv_scratch<exec_of<D>, T>(s));
    spec.add<accum_t<T>>(bias ? kernels::column_sums_scratch(s.window.in_pixels(), out_channels)
                              : 0);
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 4, D> y) const {
    Ref<const T, 1, D> b(nullptr, {out_channels});
    if (bias) b = ctx.template param<1>(1);
    kernels::conv_input_grad(ctx.exec(), sizes(Shape(x.extents())), x, ctx.template param<4>(0), b,
                             y, ctx.template scratch<accum_t<T>>(0));
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<ConvTranspose2d, D, T>& saved,
                Ref<const T, 4, D> dy, Ref<T, 4, D> dx) const {
    const auto s = sizes(Shape(saved.x.extents()));
    auto* work = ctx.template scratch<accum_t<T>>(0);
    if (auto dw = ctx.template grad<4>(0); !dw.null()) {
      kernels::conv_weight_grad(ctx.exec(), s, dy, saved.x, dw.data(), work);
    }
    if (bias) {
      detail::conv_bias_grad(ctx, "krama::nn::conv_transpose2d::bias_grad", dy,
                             s.window.in_pixels());
    }
    if (!dx.null()) {
      kernels::conv_forward(ctx.exec(), s, dy, ctx.template param<4>(0),
                            Ref<const T, 1, D>(nullptr, {in_channels}), dx, work);
    }
  }

  /// Sizes of the convolution that leads from the output back to an input of shape `in`. \throws Error
  /// where the layer and the shape do not fit.
  [[nodiscard]] kernels::ConvSizes sizes(const Shape& in) const {
    check();
    KRAMA_EXPECTS(in.rank() == 4 && in[1] > 0 && in[2] > 0 && in[-1] == in_channels,
                  "conv_transpose2d: wanted an input (images, height, width, {}), found {}; "
                  "channels come last and must be in_channels",
                  in_channels, to_string(in));
    const std::int64_t h =
        extent(in[1], kernel.h, stride.h, padding.h, output_padding.h, dilation.h);
    const std::int64_t w =
        extent(in[2], kernel.w, stride.w, padding.w, output_padding.w, dilation.w);
    KRAMA_EXPECTS(h > 0 && w > 0,
                  "conv_transpose2d: padding of {} x {} cuts an output of {} x {} to nothing",
                  padding.h, padding.w, h + 2 * padding.h, w + 2 * padding.w);
    return {{{in[0], h, w, in[1], in[2]}, kernel, stride, padding, dilation},
            out_channels,
            in_channels,
            groups};
  }

 private:
  static std::int64_t extent(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                             std::int64_t padding, std::int64_t behind, std::int64_t dilation) {
    return checked_product(in - 1, stride) - 2 * padding + dilation * (kernel - 1) + behind + 1;
  }
  void check() const {
    detail::check_conv(*this);
    // At a stride or more the convolution back would have another place.
    KRAMA_EXPECTS(
        output_padding.h >= 0 && output_padding.w >= 0 && output_padding.h < stride.h &&
            output_padding.w < stride.w,
        "conv_transpose2d: output_padding must be less than the stride, found {} x {} for "
        "a stride of {} x {}",
        output_padding.h, output_padding.w, stride.h, stride.w);
  }
};

}  // namespace krama::nn
