// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/column_sums.hpp>
#include <krama/kernels/conv.hpp>
#include <krama/nn/detail/conv_parts.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::Size2;

/// Convolution of images (images, height, width, in_channels) to (images, out_h, out_w,
/// out_channels), out_h = (height + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded
/// down:
///   y(n, oh, ow, o) = b(o) + sum over kh, kw, c of w(o, kh, kw, c) x(n, ih, iw, c'),
///   ih = oh stride - padding + kh dilation (iw likewise; zero outside the image), c' = c + the first
///   channel of o's group.
/// The weight is (out_channels, kernel.h, kernel.w, in_channels / groups). groups = in_channels is a
/// depthwise convolution. dx, dw and db are the transposes of the sum above; saves the input.
/// Scratch: patches of a part of the batch, 8 MiB or one row of places; with oneDNN also the weights.
struct Conv2d {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  Size2 kernel = 3;
  Size2 stride = 1;
  Size2 padding = 0;  ///< zeros on each side
  Size2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  /// First weights; the bias starts at zero. Default: uniform in 1/sqrt(fan-in) (as PyTorch's).
  Init init = {};

  static constexpr std::string_view type_name = "conv2d";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 4;

  [[nodiscard]] Shape out(const Shape& in) const {
    const auto s = sizes(in);
    return {in[0], s.window.out_h, s.window.out_w, out_channels};
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const { return sizes(in).flops(); }
  void params(ParamSpec& spec) const {
    detail::check_conv(*this);
    detail::conv_params(*this, spec, {out_channels, kernel.h, kernel.w, in_channels / groups});
  }
  template <Device D, class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    const auto s = sizes(in);
    spec.add<accum_t<T>>(kernels::conv_scratch<exec_of<D>, T>(s));
    spec.add<accum_t<T>>(bias ? kernels::column_sums_scratch(s.window.places(), out_channels) : 0);
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 4, D> y) const {
    Ref<const T, 1, D> b(nullptr, {out_channels});
    if (bias) b = ctx.template param<1>(1);
    kernels::conv_forward(ctx.exec(), sizes(Shape(x.extents())), x, ctx.template param<4>(0), b, y,
                          ctx.template scratch<accum_t<T>>(0));
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Conv2d, D, T>& saved, Ref<const T, 4, D> dy,
                Ref<T, 4, D> dx) const {
    const auto s = sizes(Shape(saved.x.extents()));
    auto* work = ctx.template scratch<accum_t<T>>(0);
    if (auto dw = ctx.template grad<4>(0); !dw.null()) {
      kernels::conv_weight_grad(ctx.exec(), s, saved.x, dy, dw.data(), work);
    }
    if (bias) {
      detail::conv_bias_grad(ctx, "krama::nn::conv2d::bias_grad", dy, s.window.places());
    }
    if (!dx.null()) {
      kernels::conv_input_grad(ctx.exec(), s, dy, ctx.template param<4>(0),
                               Ref<const T, 1, D>(nullptr, {in_channels}), dx, work);
    }
  }

  /// Sizes for an input of shape `in`. \throws Error where the layer and the shape do not fit.
  [[nodiscard]] kernels::ConvSizes sizes(const Shape& in) const {
    detail::check_conv(*this);
    KRAMA_EXPECTS(in.rank() == 4 && in[-1] == in_channels,
                  "conv2d: wanted an input (images, height, width, {}), found {}; channels come "
                  "last and must be in_channels",
                  in_channels, to_string(in));
    const kernels::ConvSizes s{
        {{in[0], in[1], in[2],
          kernels::window_places(in[1], kernel.h, stride.h, padding.h, dilation.h),
          kernels::window_places(in[2], kernel.w, stride.w, padding.w, dilation.w)},
         kernel,
         stride,
         padding,
         dilation},
        in_channels,
        out_channels,
        groups};
    KRAMA_EXPECTS(
        s.window.out_h > 0 && s.window.out_w > 0,
        "conv2d: the kernel covers {} x {} pixels, found an input of {} x {} with {} x {} "
        "zeros on each side; take a smaller kernel or dilation, or more padding",
        dilation.h * (kernel.h - 1) + 1, dilation.w * (kernel.w - 1) + 1, in[1], in[2], padding.h,
        padding.w);
    return s;
  }
};

}  // namespace krama::nn
