// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/embedding.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// y[b, t] = weight[ids[b, t]] (+ positions[t]): int32 indices (B, T) to (B, T, features).
/// Saves its input, the indices. Gradients are summed in the order of the batch's rows by one
/// owner a table entry (no atomics). Indices outside the table are refused where batches are
/// assembled; kernels check them only in builds with KRAMA_ENABLE_CHECKS.
struct Embedding {
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  std::int64_t positions = 0;  ///< longest sequence with a learned vector for each place; 0: none
  Init init = Init::normal(0.02);

  static constexpr std::string_view type_name = "embedding";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank_in = 2;
  static constexpr int rank_out = 3;
  using input_type = std::int32_t;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() == 2, "embedding: the input must be (batch, time), found {}",
                  to_string(in));
    KRAMA_EXPECTS(positions == 0 || in[1] <= positions,
                  "embedding: sequences of {} are longer than the {} learned positions", in[1],
                  positions);
    return {in[0], in[1], features};
  }
  void params(ParamSpec& spec) const {
    KRAMA_EXPECTS(vocabulary > 0 && features > 0,
                  "embedding: vocabulary and features must be positive, found {} and {}",
                  vocabulary, features);
    KRAMA_EXPECTS(positions >= 0, "embedding: positions must not be negative, found {}", positions);
    spec("weight", {vocabulary, features}, init, {.decay = true});
    if (positions > 0) spec("positions", {positions, features}, init, {.decay = true});
  }
  template <class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    spec.add<std::int32_t>(2 * in.size());
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const std::int32_t, 2, D> x, Ref<T, 3, D> y) const {
    Ref<const T, 2, D> p(nullptr, {positions, features});
    if (positions > 0) p = ctx.template param<2>(1);
    kernels::embed(ctx.exec(), x, ctx.template param<2>(0), p, y);
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Embedding, D, T>& saved,
                Ref<const T, 3, D> dy, Ref<std::int32_t, 2, D> /*dx*/) const {
    using A = accum_t<T>;
    Ref<A, 2, D> p(nullptr, {positions, features});
    if (positions > 0) p = ctx.template grad<2>(1);
    kernels::embed_grad(ctx.exec(), saved.x, dy, ctx.template grad<2>(0), p,
                        ctx.template scratch<std::int32_t>(0));
  }
};

}  // namespace krama::nn
