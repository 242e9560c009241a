// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/norm.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// LayerNorm (Ba, Kiros and Hinton 2016, arXiv:1607.06450) over the last extent:
/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the biased variance.
/// Saves the input, and mean and 1/sqrt(variance + epsilon) of each row, so that backward needs no
/// second reduction over x. Epsilon is inside the root: a constant row gives y = bias and a finite
/// dx.
struct LayerNorm {
  std::int64_t features = 0;
  double epsilon = 1e-5;

  static constexpr std::string_view type_name = "layer_norm";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 2;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 1 && in[-1] == features,
                  "layer_norm: the last extent of the input must be {}, found {}", features,
                  to_string(in));
    return in;
  }
  void params(ParamSpec& spec) const {
    KRAMA_EXPECTS(features > 0, "layer_norm: features must be positive, not {}", features);
    KRAMA_EXPECTS(epsilon > 0.0, "layer_norm: epsilon must be positive, not {}", epsilon);
    spec("weight", {features}, Init::ones(), {.decay = false});
    spec("bias", {features}, Init::zeros(), {.decay = false});
  }
  template <class T>
  void stash(StashSpec& spec, const Shape& in) const {
    spec.add<accum_t<T>>(2 * in.collapsed<2>()[0]);  // means, then reciprocal deviations
  }
  template <class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    spec.add<accum_t<T>>(kernels::norm_scratch<true>(in.collapsed<2>()[0], features));
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    const std::int64_t rows = x.extent(0);
    auto* mean = ctx.template slot<accum_t<T>, 1>(0, {2 * rows}).data();
    kernels::norm_forward<true>(ctx.exec(), "krama::nn::layer_norm::forward", x,
                                ctx.template param<1>(0), ctx.template param<1>(1), y, mean,
                                mean + rows, epsilon);
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<LayerNorm, D, T>& saved,
                Ref<const T, 2, D> dy, Ref<T, 2, D> dx) const {
    using A = accum_t<T>;
    const std::int64_t rows = dy.extent(0);
    const A* mean = ctx.template slot<A, 1>(0, {2 * rows}).data();
    kernels::norm_backward<true>(ctx.exec(), "krama::nn::layer_norm::backward", saved.x,
                                 ctx.template param<1>(0), mean, mean + rows, dy, dx,
                                 ctx.template grad<1>(0).data(), ctx.template grad<1>(1).data(),
                                 ctx.template scratch<A>(0));
  }
};

}  // namespace krama::nn
