// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/pool.hpp>
#include <krama/nn/detail/pool_parts.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// The largest element of each window of each channel of signals: (samples, length, channels) to
/// (samples, out_length, channels), out_length = (length + 2 padding - kernel) / stride + 1, rounded
/// down: MaxPool2d of images of height 1, with its rules for padding, ties and NaN. dx = sum of dy over
/// the windows that the element won. The winners are stashed, 4 bytes an element of y.
struct MaxPool1d {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;

  static constexpr std::string_view type_name = "max_pool1d";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank = 3;

  [[nodiscard]] Shape out(const Shape& in) const { return {in[0], sizes(in).out_w, in[2]}; }
  [[nodiscard]] std::int64_t flops(const Shape& in) const { return out(in).size() * kernel; }
  template <class T>
  void stash(StashSpec& spec, const Shape& in) const {
    spec.add<std::int32_t>(out(in).size());
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 3, D> x, Ref<T, 3, D> y) const {
    kernels::max_pool(ctx.exec(), sizes(Shape(x.extents())), detail::as_images(x),
                      detail::as_images(y),
                      ctx.template slot<std::int32_t, 1>(0, {y.size()}).data());
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<MaxPool1d, D, T>& /*saved*/,
                Ref<const T, 3, D> dy, Ref<T, 3, D> dx) const {
    if (dx.null()) return;
    const std::int32_t* winner = ctx.template slot<std::int32_t, 1>(0, {dy.size()}).data();
    kernels::max_pool_grad(ctx.exec(), sizes(Shape(dx.extents())), detail::as_images(dy), winner,
                           detail::as_images(dx));
  }

 private:
  [[nodiscard]] kernels::WindowSizes sizes(const Shape& in) const {
    return detail::signal_pool_sizes(type_name, in, kernel, stride, padding);
  }
};

}  // namespace krama::nn
