// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/chain.hpp>
#include <krama/nn/layers/attention.hpp>
#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/embedding.hpp>
#include <krama/nn/layers/gelu.hpp>
#include <krama/nn/layers/layer_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/layers/rms_norm.hpp>
#include <krama/nn/layers/silu.hpp>
#include <krama/nn/layers/swiglu.hpp>
#include <krama/nn/residual.hpp>

#include "guarded/on_device.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using namespace krama::nn;
using guarded_test::check;

TEST_CASE("guarded: linear", "[guarded]") {
  check(Linear{.in_features = 7, .out_features = 5}, {2, 3, 7}, 1e-5);
  check(Linear{.in_features = 70, .out_features = 66, .bias = false}, {9, 70}, 1e-5);
}

TEST_CASE("guarded: activations", "[guarded]") {
  check(Relu{}, {3, 50}, 0.0);
  check(Gelu{}, {3, 50}, 1e-6);
  check(Gelu{GeluForm::tanh}, {3, 50}, 1e-6);
  check(Silu{}, {3, 50}, 1e-6);
  check(SwiGlu{}, {3, 50}, 1e-6);
}

TEST_CASE("guarded: dropout", "[guarded]") {
  check(Dropout{0.3}, {3, 5, 7}, 0.0);
  check(Dropout{0.0}, {3, 5}, 0.0);
}

TEST_CASE("guarded: embedding", "[guarded]") {
  check(Embedding{.vocabulary = 7, .features = 9, .positions = 6}, {4, 5}, 1e-6, 7);
  check(Embedding{.vocabulary = 7, .features = 1}, {2, 3}, 1e-6, 7);
}

TEST_CASE("guarded: norms", "[guarded]") {
  check(LayerNorm{.features = 33}, {5, 33}, 1e-5);
  check(RmsNorm{.features = 33}, {2, 3, 33}, 1e-5);
}

TEST_CASE("guarded: attention", "[guarded]") {
  check(CausalSelfAttention{.heads = 2, .head_features = 5}, {2, 9, 30}, 1e-5);
  check(
      CausalSelfAttention{
          .heads = 4, .head_features = 4, .kv_heads = 2, .rope = RopeStyle::half_split},
      {1, 40, 32}, 1e-5);
}

TEST_CASE("guarded: chains with a residual branch", "[guarded]") {
  check(chain(named("in", Linear{.in_features = 6, .out_features = 8}),
              residual(named("norm", LayerNorm{.features = 8}),
                       named("up", Linear{.in_features = 8, .out_features = 12}), Silu{},
                       named("down", Linear{.in_features = 12, .out_features = 8}), Dropout{0.2})),
        {3, 5, 6}, 1e-5);
}
