// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Numbers of parameters as published, counted without allocating any: torchvision's tables for VGG,
// the released checkpoints of GPT-2, LLaMA and Qwen2 for the others.

#include <krama/models/gpt.hpp>
#include <krama/models/lenet.hpp>
#include <krama/models/llama.hpp>
#include <krama/models/vgg.hpp>
#include <krama/nn/describe.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>

using namespace krama::models;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using krama::nn::parameter_count;

TEST_CASE("models: convolutional networks have the published numbers of parameters", "[models]") {
  CHECK(parameter_count(lenet<D, float>({})) == 61'706);
  CHECK(parameter_count(vgg<D, float>({})) == 138'357'544);
  // VGG11 and VGG19: columns A and E of the same table.
  CHECK(parameter_count(vgg<D, float>(
            {.stages = {{64}, {128}, {256, 256}, {512, 512}, {512, 512}}})) == 132'863'336);
  CHECK(parameter_count(vgg<D, float>({.stages = {{64, 64},
                                                  {128, 128},
                                                  {256, 256, 256, 256},
                                                  {512, 512, 512, 512},
                                                  {512, 512, 512, 512}}})) == 143'667'240);
}

TEST_CASE("models: language models have the published numbers of parameters", "[models]") {
  CHECK(parameter_count(gpt<D, float>(gpt2_small())) == 124'439'808);
  CHECK(parameter_count(gpt<D, float>(gpt2_medium())) == 354'823'168);
  CHECK(parameter_count(gpt<D, float>(gpt2_large())) == 774'030'080);
  CHECK(parameter_count(gpt<D, float>(gpt2_xl())) == 1'557'611'200);
  CHECK(parameter_count(llama<D, float>(llama2_7b())) == 6'738'415'616);
  CHECK(parameter_count(llama<D, float>(llama3_8b())) == 8'030'261'248);
  CHECK(parameter_count(llama<D, float>(qwen2_7b())) == 7'615'616'512);
}

TEST_CASE("models: operations are counted from the layers' formulas", "[models]") {
  // torchvision's table for VGG16: 15.47 thousand million products with their additions.
  const auto n = static_cast<double>(krama::nn::flops(vgg<D, float>({}), 1));
  CHECK(std::abs(n / (2e9 * 15.47) - 1.0) < 0.01);
  // GPT: 2 for each weight and token, and 4 for each feature and pair of places; the rest one each.
  const GptConfig c{.vocabulary = 11, .context = 6, .features = 8, .layers = 1, .heads = 2};
  const auto model = gpt<D, float>(c);
  const std::int64_t products = 6 * 2 * 12 * 8 * 8;
  const std::int64_t attention = 4 * 8 * (6 * 7 / 2);
  const std::int64_t single = 6 * (8 + 8 + 8 + 8 + 32 + 8 + 8);
  CHECK(model.flops(1, 1) == products + attention + single);
}

TEST_CASE("models: describe tells shapes, parameters and bytes of every block", "[models]") {
  const auto model = lenet<D, float>({});
  const std::string text = krama::nn::describe(model, 2);
  CAPTURE(text);
  CHECK_THAT(text, ContainsSubstring("c1") && ContainsSubstring("(2, 14, 14, 6)") &&
                       ContainsSubstring("(2, 120)") && ContainsSubstring("48120") &&
                       ContainsSubstring("61706"));
  std::int64_t parameters = 0;
  for (int b = 0; b < model.block_count(); ++b) parameters += parameter_count(model, b);
  CHECK(parameters == parameter_count(model));
  // f6 keeps its output, 84 floats a sample, which both its ReLU and the head read.
  CHECK(krama::nn::saved_bytes(model, 3, 2) >= 2 * 84 * 4);
  CHECK(krama::nn::saved_bytes(model, 3, 4) == 2 * krama::nn::saved_bytes(model, 3, 2));
}

TEST_CASE("models: sizes that cannot work are refused", "[models]") {
  CHECK_THROWS_WITH((lenet<D, float>({.image = 8})), ContainsSubstring("too small"));
  CHECK_THROWS_WITH((vgg<D, float>({.image = 16})), ContainsSubstring("cannot be halved 5 times"));
}
