// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>

#include <krama/nn/layers/conv2d.hpp>

namespace krama::models::detail {

/// A convolution of residual networks: without a bias, since BatchNorm has one, and with padding that
/// keeps the image at stride 1. First weights are normal with variance 2 / fan-out (He et al. 2015,
/// the form for backward, which the published residual networks were trained from).
inline nn::Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride = 1) {
  const double fan_out = static_cast<double>(kernel * kernel) * static_cast<double>(out);
  return {.in_channels = in,
          .out_channels = out,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false,
          .init = Init::normal(std::sqrt(2.0 / fan_out))};
}

}  // namespace krama::models::detail
