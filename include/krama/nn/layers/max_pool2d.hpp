// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/pool.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::Size2;

namespace detail {

/// Places of a pool's windows over images of shape `in`. \throws Error where they do not fit.
inline kernels::WindowSizes pool_sizes(std::string_view layer, const Shape& in, const Size2& kernel,
                                       const Size2& stride, const Size2& padding) {
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
  const kernels::WindowSizes s{in[0],
                               in[1],
                               in[2],
                               kernels::window_places(in[1], kernel.h, stride.h, padding.h, 1),
                               kernels::window_places(in[2], kernel.w, stride.w, padding.w, 1),
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

}  // namespace detail

/// The largest element of each window of each channel: (images, height, width, channels) to (images,
/// out_h, out_w, channels), out_h = (height + 2 padding - kernel) / stride + 1, rounded down. Padding
/// never wins; of equal elements the first; NaN wins over all. dx = sum of dy over the windows that
/// the pixel won. The winners are stashed, 4 bytes an element of y.
struct MaxPool2d {
  Size2 kernel = 2;
  Size2 stride = 2;
  Size2 padding = 0;

  static constexpr std::string_view type_name = "max_pool2d";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank = 4;

  [[nodiscard]] Shape out(const Shape& in) const {
    const auto s = sizes(in);
    return {in[0], s.out_h, s.out_w, in[3]};
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    return out(in).size() * kernel.h * kernel.w;
  }
  template <class T>
  void stash(StashSpec& spec, const Shape& in) const {
    spec.add<std::int32_t>(out(in).size());
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 4, D> y) const {
    kernels::max_pool(ctx.exec(), sizes(Shape(x.extents())), x, y,
                      ctx.template slot<std::int32_t, 1>(0, {y.size()}).data());
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<MaxPool2d, D, T>& /*saved*/,
                Ref<const T, 4, D> dy, Ref<T, 4, D> dx) const {
    if (dx.null()) return;
    const std::int32_t* winner = ctx.template slot<std::int32_t, 1>(0, {dy.size()}).data();
    kernels::max_pool_grad(ctx.exec(), sizes(Shape(dx.extents())), dy, winner, dx);
  }

 private:
  [[nodiscard]] kernels::WindowSizes sizes(const Shape& in) const {
    return detail::pool_sizes(type_name, in, kernel, stride, padding);
  }
};

}  // namespace krama::nn
