// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/pool.hpp>
#include <krama/nn/detail/pool_parts.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// The mean of each window of each channel of signals; shapes as MaxPool1d's, AvgPool2d of images of
/// height 1. The divisor is the kernel, or with `count_padding = false` the number of elements inside
/// the signal. dx = sum of dy / divisor over the windows that hold the element. Saves nothing.
struct AvgPool1d {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
  bool count_padding = true;

  static constexpr std::string_view type_name = "avg_pool1d";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank = 3;

  [[nodiscard]] Shape out(const Shape& in) const { return {in[0], sizes(in).out_w, in[2]}; }
  [[nodiscard]] std::int64_t flops(const Shape& in) const { return out(in).size() * kernel; }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 3, D> x, Ref<T, 3, D> y) const {
    kernels::avg_pool(ctx.exec(), sizes(Shape(x.extents())), count_padding, detail::as_images(x),
                      detail::as_images(y));
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<AvgPool1d, D, T>& /*saved*/,
                Ref<const T, 3, D> dy, Ref<T, 3, D> dx) const {
    if (dx.null()) return;
    kernels::avg_pool_grad(ctx.exec(), sizes(Shape(dx.extents())), count_padding,
                           detail::as_images(dy), detail::as_images(dx));
  }

 private:
  [[nodiscard]] kernels::WindowSizes sizes(const Shape& in) const {
    return detail::signal_pool_sizes(type_name, in, kernel, stride, padding);
  }
};

}  // namespace krama::nn
