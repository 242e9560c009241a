// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string_view>

#include <krama/core/error.hpp>
#include <krama/kernels/window.hpp>
#include <krama/nn/detail/signals.hpp>

/// What pools of images and of signals have in common.
namespace krama::nn::detail {

/// Places of a pool's windows over images of shape `in`. \throws Error where they do not fit.
inline kernels::WindowSizes pool_sizes(std::string_view layer, const Shape& in,
                                       const kernels::Size2& kernel, const kernels::Size2& stride,
                                       const kernels::Size2& padding) {
  KRAMA_EXPECTS(in.rank() == 4 && in[1] > 0 && in[2] > 0,
                "{}: wanted an input (images, height, width, channels), found {}", layer,
                to_string(in));
  KRAMA_EXPECTS(kernel.h > 0 && kernel.w > 0 && stride.h > 0 && stride.w > 0,
                "{}: kernel and stride must be positive, found {} x {} and {} x {}", layer,
                kernel.h, kernel.w, stride.h, stride.w);
  // More, and a window could hold nothing but padding.
  KRAMA_EXPECTS(
      padding.h >= 0 && padding.w >= 0 && 2 * padding.h <= kernel.h && 2 * padding.w <= kernel.w,
      "{}: padding may be half the kernel at most, found {} x {} for a kernel of {} x {}", layer,
      padding.h, padding.w, kernel.h, kernel.w);
  const kernels::WindowSizes s{
      {in[0], in[1], in[2], kernels::window_places(in[1], kernel.h, stride.h, padding.h, 1),
       kernels::window_places(in[2], kernel.w, stride.w, padding.w, 1)},
      kernel,
      stride,
      padding,
      1};
  KRAMA_EXPECTS(s.out_h > 0 && s.out_w > 0,
                "{}: the kernel covers {} x {} pixels, found an input of {} x {}; take a smaller "
                "kernel or more padding",
                layer, kernel.h, kernel.w, in[1], in[2]);
  return s;
}

/// The same over signals of shape `in`, as images of height 1.
inline kernels::WindowSizes signal_pool_sizes(std::string_view layer, const Shape& in,
                                              std::int64_t kernel, std::int64_t stride,
                                              std::int64_t padding) {
  KRAMA_EXPECTS(in.rank() == 3 && in[1] > 0,
                "{}: wanted an input (samples, length, channels), found {}", layer, to_string(in));
  return pool_sizes(layer, as_images(in), {1, kernel}, {1, stride}, {0, padding});
}

}  // namespace krama::nn::detail
