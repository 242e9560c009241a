// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/nn/detail/signals.hpp>
#include <krama/nn/layers/conv2d.hpp>

namespace krama::nn {

/// Convolution of signals (samples, length, in_channels) to (samples, out_length, out_channels),
/// out_length = (length + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down: Conv2d of
/// images of height 1, with its formula, kernels and libraries. The weight is (out_channels, 1,
/// kernel, in_channels / groups). Saves the input.
struct Conv1d {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< zeros on each side
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  /// First weights; the bias starts at zero. Default: uniform in 1/sqrt(fan-in) (as PyTorch's).
  Init init = {};

  static constexpr std::string_view type_name = "conv1d";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 3;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() == 3 && in[-1] == in_channels,
                  "conv1d: wanted an input (samples, length, {}), found {}; channels come last and "
                  "must be in_channels",
                  in_channels, to_string(in));
    const Shape image = conv2d().out(detail::as_images(in));
    return {image[0], image[2], image[3]};
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    return conv2d().flops(detail::as_images(in));
  }
  void params(ParamSpec& spec) const { conv2d().params(spec); }
  template <Device D, class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    conv2d().template scratch<D, T>(spec, detail::as_images(in));
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 3, D> x, Ref<T, 3, D> y) const {
    conv2d().template forward<D, T>(ctx, detail::as_images(x), detail::as_images(y));
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Conv1d, D, T>& saved, Ref<const T, 3, D> dy,
                Ref<T, 3, D> dx) const {
    const SavedOf<Conv2d, D, T> images{detail::as_images(saved.x)};
    conv2d().template backward<D, T>(ctx, images, detail::as_images(dy), detail::as_images(dx));
  }

 private:
  [[nodiscard]] Conv2d conv2d() const {
    return {.in_channels = in_channels,
            .out_channels = out_channels,
            .kernel = {1, kernel},
            .stride = {1, stride},
            .padding = {0, padding},
            .dilation = {1, dilation},
            .groups = groups,
            .bias = bias,
            .init = init};
  }
};

}  // namespace krama::nn
