// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/norm.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467) over the last extent:
/// y = x / sqrt(mean(x^2) + epsilon) * weight. Saves the input and 1/sqrt(mean(x^2) + epsilon) of
/// each row. Epsilon is inside the root: a row of zeros gives y = 0 and a finite dx.
struct RmsNorm {
  std::int64_t features = 0;
  double epsilon = 1e-5;

  static constexpr std::string_view type_name = "rms_norm";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 2;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 1 && in[-1] == features,
                  "rms_norm: the last extent of the input must be {}, found {}", features,
                  to_string(in));
    return in;
  }
  void params(ParamSpec& spec) const {
    KRAMA_EXPECTS(features > 0, "rms_norm: features must be positive, not {}", features);
    KRAMA_EXPECTS(epsilon > 0.0, "rms_norm: epsilon must be positive, not {}", epsilon);
    spec("weight", {features}, Init::ones(), {.decay = false});
  }
  template <class T>
  void stash(StashSpec& spec, const Shape& in) const {
    spec.add<accum_t<T>>(in.collapsed<2>()[0]);
  }
  template <class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    spec.add<accum_t<T>>(kernels::norm_scratch<false>(in.collapsed<2>()[0], features));
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    auto* rstd = ctx.template slot<accum_t<T>, 1>(0, {x.extent(0)}).data();
    const Ref<const T, 1, D> no_bias(nullptr, {features});
    kernels::norm_forward<false>(ctx.exec(), "krama::nn::rms_norm::forward", x,
                                 ctx.template param<1>(0), no_bias, y,
                                 static_cast<accum_t<T>*>(nullptr), rstd, epsilon);
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<RmsNorm, D, T>& saved,
                Ref<const T, 2, D> dy, Ref<T, 2, D> dx) const {
    using A = accum_t<T>;
    const A* rstd = ctx.template slot<A, 1>(0, {dy.extent(0)}).data();
    kernels::norm_backward<false>(ctx.exec(), "krama::nn::rms_norm::backward", saved.x,
                                  ctx.template param<1>(0), static_cast<const A*>(nullptr), rstd,
                                  dy, dx, ctx.template grad<1>(0).data(), static_cast<A*>(nullptr),
                                  ctx.template scratch<A>(0));
  }
};

}  // namespace krama::nn
