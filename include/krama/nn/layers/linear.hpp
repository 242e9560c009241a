// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <string>

#include <krama/kernels/gemm.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// y = x W^T + b over the last extent; W is (out, in). Gradients: dx = dy W, dW += dy^T x,
/// db += column sums of dy.
struct Linear {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  /// First weights; the bias starts at zero. Default: uniform in 1/sqrt(in) (as PyTorch's Linear).
  Init init = {};
  /// Full name of a parameter of extents (out, in) to share, for example an embedding's table.
  std::string tie = {};

  static constexpr std::string_view type_name = "linear";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 2;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 1 && in[-1] == in_features,
                  "linear: the last extent of the input must be {}, found {}", in_features,
                  to_string(in));
    return in.with(-1, out_features);
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    return checked_product(2 * in.size(), out_features);
  }
  void params(ParamSpec& spec) const {
    KRAMA_EXPECTS(in_features > 0 && out_features > 0,
                  "linear: features must be positive, found {} -> {}", in_features, out_features);
    const double bound = 1.0 / std::sqrt(static_cast<double>(in_features));
    spec("weight", {out_features, in_features}, init.or_else(Init::uniform(bound)),
         {.decay = true, .tie = tie});
    if (bias) spec("bias", {out_features}, Init::zeros(), {.decay = false});
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    Ref<const T, 1, D> b(nullptr, {out_features});
    if (bias) b = ctx.template param<1>(1);
    kernels::linear_forward(ctx.exec(), x, ctx.template param<2>(0), b, y);
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Linear, D, T>& saved, Ref<const T, 2, D> dy,
                Ref<T, 2, D> dx) const {
    using A = accum_t<T>;
    using kernels::Op;
    if (auto dw = ctx.template grad<2>(0); !dw.null()) {
      kernels::gemm(ctx.exec(), Op::transpose, Op::none, A{1}, dy, saved.x, A{1}, dw);
    }
    if (bias) {
      if (auto db = ctx.template grad<1>(1); !db.null()) kernels::bias_grad(ctx.exec(), dy, db);
    }
    if (!dx.null()) {
      kernels::gemm(ctx.exec(), Op::none, Op::none, A{1}, dy, ctx.template param<2>(0), A{0}, dx);
    }
  }
};

}  // namespace krama::nn
