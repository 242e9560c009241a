// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/attention.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

using kernels::RopeStyle;

/// Causal self-attention (Vaswani et al. 2017, arXiv:1706.03762; grouped key-value heads: Ainslie
/// et al. 2023, arXiv:2305.13245): input (B, T, (heads + 2 kv_heads) * head_features), the packed
/// queries, keys and values of a Linear; output (B, T, heads * head_features); y_i = sum over j <=
/// i of softmax_j(q_i k_j / sqrt(head_features)) v_j, head by head. Saves the input, and of each
/// row the log of its sum of exponentials; backward makes the probabilities again from these.
/// Positions count from 0 in each sequence. RoPE has two forms that give different numbers from
/// the same weights: name the one the weights were trained with.
struct CausalSelfAttention {
  std::int64_t heads = 0;
  std::int64_t head_features = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  RopeStyle rope = RopeStyle::none;
  double rope_theta = 10000.0;

  static constexpr std::string_view type_name = "causal_self_attention";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 3;

  [[nodiscard]] Shape out(const Shape& in) const {
    const std::int64_t kv = kv_heads == 0 ? heads : kv_heads;
    KRAMA_EXPECTS(heads > 0 && head_features > 0 && kv > 0 && heads % kv == 0,
                  "causal_self_attention: {} heads of {} features do not go with {} key-value "
                  "heads",
                  heads, head_features, kv);
    KRAMA_EXPECTS(rope == RopeStyle::none || head_features % 2 == 0,
                  "causal_self_attention: rotations need an even number of features, not {}",
                  head_features);
    const std::int64_t want = (heads + 2 * kv) * head_features;
    KRAMA_EXPECTS(in.rank() == 3 && in[-1] == want,
                  "causal_self_attention: the input must be (batch, time, {}), found {}", want,
                  to_string(in));
    return in.with(-1, heads * head_features);
  }
  /// Scores and weighted sums over the places that each may see.
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    return checked_product(4 * heads * head_features, in[0] * (in[1] * (in[1] + 1) / 2));
  }
  template <class T>
  void stash(StashSpec& spec, const Shape& in) const {
    spec.add<accum_t<T>>(checked_product(in[0] * heads, in[1]));
  }
  template <Device D, class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    const auto s = sizes(in[0], in[1]);
    spec.add<accum_t<T>>(rope == RopeStyle::none ? 0 : s.time * s.features);
    spec.add<accum_t<T>>(kernels::attention_work<exec_of<D>, accum_t<T>>(s));
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 3, D> x, Ref<T, 3, D> y) const {
    auto g = args(ctx, x);
    g.y = y.data();
    kernels::attention_table(ctx.exec(), g.s, ctx.template scratch<accum_t<T>>(0), rope_theta);
    kernels::attention_forward(ctx.exec(), g);
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<CausalSelfAttention, D, T>& saved,
                Ref<const T, 3, D> dy, Ref<T, 3, D> dx) const {
    if (dx.null()) return;
    auto g = args(ctx, saved.x);
    g.dy = dy.data();
    g.dqkv = dx.data();
    kernels::attention_table(ctx.exec(), g.s, ctx.template scratch<accum_t<T>>(0), rope_theta);
    kernels::attention_backward(ctx.exec(), g);
  }

 private:
  [[nodiscard]] kernels::AttentionSizes sizes(std::int64_t batch, std::int64_t time) const {
    return {batch, time, heads, kv_heads == 0 ? heads : kv_heads, head_features, rope};
  }
  template <Device D, class T>
  kernels::AttentionArgs<T> args(const Context<D, T>& ctx, Ref<const T, 3, D> x) const {
    using A = accum_t<T>;
    kernels::AttentionArgs<T> g;
    g.s = sizes(x.extent(0), x.extent(1));
    g.qkv = x.data();
    g.lse = ctx.template slot<A, 1>(0, {g.s.batch * heads * g.s.time}).data();
    if (rope != RopeStyle::none) g.table = ctx.template scratch<A>(0);
    g.work = ctx.template scratch<A>(1);
    return g;
  }
};

}  // namespace krama::nn
