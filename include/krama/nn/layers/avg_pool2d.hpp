// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/pool.hpp>
#include <krama/nn/detail/pool_parts.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::Size2;

/// The mean of each window of each channel; shapes as MaxPool2d's. The divisor is the size of the
/// kernel, or with `count_padding = false` the number of pixels inside the image. dx = sum of
/// dy / divisor over the windows that hold the pixel. Saves nothing.
struct AvgPool2d {
  Size2 kernel = 2;
  Size2 stride = 2;
  Size2 padding = 0;
  bool count_padding = true;

  static constexpr std::string_view type_name = "avg_pool2d";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank = 4;

  [[nodiscard]] Shape out(const Shape& in) const {
    const auto s = sizes(in);
    return {in[0], s.out_h, s.out_w, in[3]};
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    return out(in).size() * kernel.h * kernel.w;
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 4, D> y) const {
    kernels::avg_pool(ctx.exec(), sizes(Shape(x.extents())), count_padding, x, y);
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<AvgPool2d, D, T>& /*saved*/,
                Ref<const T, 4, D> dy, Ref<T, 4, D> dx) const {
    if (dx.null()) return;
    kernels::avg_pool_grad(ctx.exec(), sizes(Shape(dx.extents())), count_padding, dy, dx);
  }

 private:
  [[nodiscard]] kernels::WindowSizes sizes(const Shape& in) const {
    return detail::pool_sizes(type_name, in, kernel, stride, padding);
  }
};

}  // namespace krama::nn
