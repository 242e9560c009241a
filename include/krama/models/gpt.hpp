// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <krama/definitions.hpp>
#include <krama/nn/chain.hpp>
#include <krama/nn/layers/attention.hpp>
#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/embedding.hpp>
#include <krama/nn/layers/gelu.hpp>
#include <krama/nn/layers/layer_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/model.hpp>
#include <krama/nn/residual.hpp>

namespace krama::models {

/// GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks, GELU (tanh form), tied head.
struct GptConfig {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;
  std::int64_t features = 128;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  double dropout = 0.0;
  bool tied_head = true;
};

/// The four sizes of GPT-2 (table 2 of the paper; heads of 64): 124,439,808, 354,823,168, 774,030,080
/// and 1,557,611,200 parameters.
inline GptConfig gpt2_small() {
  return {.vocabulary = 50257, .context = 1024, .features = 768, .layers = 12, .heads = 12};
}
inline GptConfig gpt2_medium() {
  return {.vocabulary = 50257, .context = 1024, .features = 1024, .layers = 24, .heads = 16};
}
inline GptConfig gpt2_large() {
  return {.vocabulary = 50257, .context = 1024, .features = 1280, .layers = 36, .heads = 20};
}
inline GptConfig gpt2_xl() {
  return {.vocabulary = 50257, .context = 1024, .features = 1600, .layers = 48, .heads = 25};
}

/// One transformer block: x + attention(norm(x)), then x + mlp(norm(x)).
inline auto gpt_block(const GptConfig& c) {
  using namespace nn;
  const std::int64_t d = c.features;
  // Projections into the residual stream start smaller, by the number of additions to it (GPT-2,
  // section 2.3).
  const Init in = Init::normal(0.02);
  const Init out = Init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(c.layers)));
  return chain(
      named("attention",
            residual(named("norm", LayerNorm{.features = d}),
                     named("qkv", Linear{.in_features = d, .out_features = 3 * d, .init = in}),
                     CausalSelfAttention{.heads = c.heads, .head_features = d / c.heads},
                     named("out", Linear{.in_features = d, .out_features = d, .init = out}),
                     Dropout{.rate = c.dropout})),
      named("mlp",
            residual(named("norm", LayerNorm{.features = d}),
                     named("up", Linear{.in_features = d, .out_features = 4 * d, .init = in}),
                     Gelu{.approximation = GeluForm::tanh},
                     named("down", Linear{.in_features = 4 * d, .out_features = d, .init = out}),
                     Dropout{.rate = c.dropout})));
}

/// Token numbers (samples, context) to logits (samples, context, vocabulary).
template <Device D, Scalar T>
nn::Model<D, T> gpt(const GptConfig& c) {
  using namespace nn;
  KRAMA_EXPECTS(c.layers >= 0 && c.heads > 0 && c.features % c.heads == 0,
                "gpt: {} features cannot be divided among {} heads", c.features, c.heads);
  Model<D, T> m;
  ValueId x = m.template input<std::int32_t>("tokens", {c.context});
  x = m.block("embedding",
              named("tokens", Embedding{.vocabulary = c.vocabulary,
                                        .features = c.features,
                                        .positions = c.context,
                                        .init = Init::normal(0.02)}),
              x);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    x = m.block("blocks." + std::to_string(i), gpt_block(c), x);
  }
  x = m.block("head",
              chain(named("norm", LayerNorm{.features = c.features}),
                    named("logits", Linear{.in_features = c.features,
                                           .out_features = c.vocabulary,
                                           .bias = false,
                                           .init = Init::normal(0.02),
                                           .tie = c.tied_head ? "embedding.tokens.weight" : ""})),
              x);
  m.output(x);
  return m;
}

KRAMA_INSTANCE(nn::Model<DefaultDevice, float> gpt(const GptConfig&));

}  // namespace krama::models
