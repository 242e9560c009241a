// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/pool.hpp>
#include <krama/nn/detail/pool_parts.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::Size2;

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
