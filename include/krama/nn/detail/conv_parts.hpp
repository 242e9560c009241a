// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>

#include <krama/kernels/column_sums.hpp>
#include <krama/kernels/conv.hpp>
#include <krama/nn/layer.hpp>

/// What a convolution of images and its transpose have in common.
namespace krama::nn::detail {

/// \throws Error, in the name of layer L, where its settings make no convolution
template <class L>
void check_conv(const L& l) {
  KRAMA_EXPECTS(l.in_channels > 0 && l.out_channels > 0,
                "{}: channels must be positive, found {} -> {}", L::type_name, l.in_channels,
                l.out_channels);
  KRAMA_EXPECTS(l.groups > 0 && l.in_channels % l.groups == 0 && l.out_channels % l.groups == 0,
                "{}: wanted groups that divide both channel counts, found {} groups for {} -> {} "
                "channels",
                L::type_name, l.groups, l.in_channels, l.out_channels);
  KRAMA_EXPECTS(l.kernel.h > 0 && l.kernel.w > 0 && l.stride.h > 0 && l.stride.w > 0 &&
                    l.dilation.h > 0 && l.dilation.w > 0 && l.padding.h >= 0 && l.padding.w >= 0,
                "{}: kernel, stride and dilation must be positive and padding not negative, found "
                "{} x {}, {} x {}, {} x {} and {} x {}",
                L::type_name, l.kernel.h, l.kernel.w, l.stride.h, l.stride.w, l.dilation.h,
                l.dilation.w, l.padding.h, l.padding.w);
}

/// The weight of shape `weight`, uniform in 1/sqrt(elements for each of its first extent) unless the
/// layer's `init` says otherwise, and the bias.
template <class L>
void conv_params(const L& l, ParamSpec& spec, const Shape& weight) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(weight.size() / weight[0]));
  spec("weight", weight, l.init.or_else(Init::uniform(bound)), {.decay = true});
  if (l.bias) spec("bias", {l.out_channels}, Init::zeros(), {.decay = false});
}

/// db: the sums of dy, (images, height, width, channels), over its `places`. The bias is the layer's
/// second parameter, and the sums work in its second scratch.
template <Device D, class T>
void conv_bias_grad(const Context<D, T>& ctx, const char* label, Ref<const T, 4, D> dy,
                    std::int64_t places) {
  auto db = ctx.template grad<1>(1);
  if (db.null()) return;
  const Ref<const T, 2, D> rows(dy.data(), {places, dy.extent(3)});
  kernels::column_sums(ctx.exec(), label, rows, db.data(), ctx.template scratch<accum_t<T>>(1));
}

}  // namespace krama::nn::detail
