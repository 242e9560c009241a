// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <krama/nn/chain.hpp>
#include <krama/nn/layers/attention.hpp>
#include <krama/nn/layers/embedding.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/rms_norm.hpp>
#include <krama/nn/layers/swiglu.hpp>
#include <krama/nn/model.hpp>
#include <krama/nn/residual.hpp>

namespace krama::models {

/// LLaMA (Touvron et al. 2023): RMSNorm, rotary positions, grouped key/value heads, SwiGLU, no
/// biases, no positions in the embedding.
struct LlamaConfig {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;
  std::int64_t features = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t hidden = 352;  ///< of the MLP
  double rope_theta = 10000.0;
  nn::RopeStyle rope = nn::RopeStyle::half_split;
  double norm_epsilon = 1e-5;
  bool tied_head = false;
  bool qkv_bias = false;  ///< Qwen2's projections have one
};

/// LLaMA 2 7B (Touvron et al. 2023): 6,738,415,616 parameters.
inline LlamaConfig llama2_7b() {
  return {.vocabulary = 32000,
          .context = 4096,
          .features = 4096,
          .layers = 32,
          .heads = 32,
          .kv_heads = 32,
          .hidden = 11008};
}

/// LLaMA 3 8B (Grattafiori et al. 2024, table 3): 8,030,261,248 parameters.
inline LlamaConfig llama3_8b() {
  return {.vocabulary = 128256,
          .context = 8192,
          .features = 4096,
          .layers = 32,
          .heads = 32,
          .kv_heads = 8,
          .hidden = 14336,
          .rope_theta = 500000.0};
}

/// Qwen2 7B (Yang et al. 2024, table 1; 152,064 rows of the embedding are stored): 7,615,616,512
/// parameters.
inline LlamaConfig qwen2_7b() {
  return {.vocabulary = 152064,
          .context = 32768,
          .features = 3584,
          .layers = 28,
          .heads = 28,
          .kv_heads = 4,
          .hidden = 18944,
          .rope_theta = 1000000.0,
          .norm_epsilon = 1e-6,
          .qkv_bias = true};
}

inline auto llama_block(const LlamaConfig& c) {
  using namespace nn;
  const std::int64_t d = c.features;
  const std::int64_t head = d / c.heads;
  const Init init = Init::normal(0.02);
  return chain(
      named("attention",
            residual(named("norm", RmsNorm{.features = d, .epsilon = c.norm_epsilon}),
                     named("qkv", Linear{.in_features = d,
                                         .out_features = (c.heads + 2 * c.kv_heads) * head,
                                         .bias = c.qkv_bias,
                                         .init = init}),
                     CausalSelfAttention{.heads = c.heads,
                                         .head_features = head,
                                         .kv_heads = c.kv_heads,
                                         .rope = c.rope,
                                         .rope_theta = c.rope_theta},
                     named("out", Linear{.in_features = c.heads * head,
                                         .out_features = d,
                                         .bias = false,
                                         .init = init}))),
      named("mlp", residual(named("norm", RmsNorm{.features = d, .epsilon = c.norm_epsilon}),
                            named("gate_up", Linear{.in_features = d,
                                                    .out_features = 2 * c.hidden,
                                                    .bias = false,
                                                    .init = init}),
                            SwiGlu{},
                            named("down", Linear{.in_features = c.hidden,
                                                 .out_features = d,
                                                 .bias = false,
                                                 .init = init}))));
}

/// Token numbers (samples, context) to logits (samples, context, vocabulary).
template <Device D, Scalar T>
nn::Model<D, T> llama(const LlamaConfig& c) {
  using namespace nn;
  KRAMA_EXPECTS(
      c.heads > 0 && c.kv_heads > 0 && c.features % c.heads == 0 && c.heads % c.kv_heads == 0,
      "llama: {} features, {} heads and {} key/value heads do not divide", c.features, c.heads,
      c.kv_heads);
  Model<D, T> m;
  ValueId x = m.template input<std::int32_t>("tokens", {c.context});
  x = m.block("embedding",
              named("tokens", Embedding{.vocabulary = c.vocabulary,
                                        .features = c.features,
                                        .init = Init::normal(0.02)}),
              x);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    x = m.block("blocks." + std::to_string(i), llama_block(c), x);
  }
  x = m.block("head",
              chain(named("norm", RmsNorm{.features = c.features, .epsilon = c.norm_epsilon}),
                    named("logits", Linear{.in_features = c.features,
                                           .out_features = c.vocabulary,
                                           .bias = false,
                                           .init = Init::normal(0.02),
                                           .tie = c.tied_head ? "embedding.tokens.weight" : ""})),
              x);
  m.output(x);
  return m;
}

}  // namespace krama::models
