// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Numbers of parameters of residual networks, counted without allocating any. ResNets: torchvision's
// table (200: its blocks, counted with that table's; timm's resnet200 has as many). CIFAR networks:
// layer by layer from the authors' code; the papers round to 10.2 and 36.5 million.

#include <krama/models/preact_resnet.hpp>
#include <krama/models/resnet.hpp>
#include <krama/nn/describe.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>

using namespace krama::models;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using krama::nn::parameter_count;

TEST_CASE("models: residual networks have the published numbers of parameters", "[models]") {
  CHECK(parameter_count(resnet<D, float>(resnet18())) == 11'689'512);
  CHECK(parameter_count(resnet<D, float>(resnet34())) == 21'797'672);
  CHECK(parameter_count(resnet<D, float>({})) == 25'557'032);
  CHECK(parameter_count(resnet<D, float>(resnet50())) == 25'557'032);
  CHECK(parameter_count(resnet<D, float>(resnet101())) == 44'549'160);
  CHECK(parameter_count(resnet<D, float>(resnet152())) == 60'192'808);
  // A block more in stage 2 has 280,064 parameters, one in stage 3 1,117,184.
  CHECK(25'557'032 + 20 * 280'064 + 30 * 1'117'184 == 64'673'832);
  CHECK(parameter_count(resnet<D, float>(resnet200())) == 64'673'832);
}

TEST_CASE("models: pre-activation networks have the published numbers of parameters", "[models]") {
  CHECK(parameter_count(preact_resnet<D, float>(resnet1001())) == 10'327'706);
  CHECK(parameter_count(preact_resnet<D, float>(wide_resnet(28, 10))) == 36'479'194);
  auto hundred = wide_resnet(28, 10);
  hundred.classes = 100;
  CHECK(parameter_count(preact_resnet<D, float>(hundred)) == 36'536'884);
}

TEST_CASE("models: residual networks have the published numbers of operations", "[models]") {
  // torchvision's tables, products and additions as one: 4.09, 1.81 and 11.51 thousand million.
  const auto off = [](const ResnetConfig& c, double published) {
    const auto n = krama::nn::flops(resnet<D, float>(c), 1);
    return std::abs(static_cast<double>(n) / (2e9 * published) - 1.0);
  };
  CHECK(off(resnet50(), 4.09) < 0.01);
  CHECK(off(resnet18(), 1.81) < 0.01);
  CHECK(off(resnet152(), 11.51) < 0.01);
  const auto model = resnet<D, float>(resnet50());
  CHECK(krama::nn::flops(model, 3) == 3 * krama::nn::flops(model, 1));
  // The stem by hand: convolution, norm, ReLU, and pool of 3 x 3.
  CHECK(model.flops(0, 1) == 112 * 112 * 64 * (2 * 7 * 7 * 3 + 1 + 1) + 56 * 56 * 64 * 9);
  // stages.0.0: branch, shortcut, sum, ReLU.
  CHECK(model.flops(1, 1) == 56 * 56 * (2 * 64 * (64 + 9 * 64 + 256) + 4 * 64 + 256));
  CHECK(model.flops(2, 1) == 56 * 56 * (2 * 64 * 256 + 256));
  CHECK(model.flops(3, 1) == 56 * 56 * 256);
  // stages.0.1: the same branch behind 256 channels, the residual's sum and the ReLU.
  CHECK(model.flops(5, 1) == 56 * 56 * (2 * 64 * (256 + 9 * 64 + 256) + 4 * 64 + 256 + 256 + 256));
}

TEST_CASE("models: describe works at a thousand layers", "[models]") {
  const auto model = preact_resnet<D, float>(resnet1001());
  // Three blocks fall apart into start, branch, shortcut and sum.
  CHECK(model.block_count() == 1 + 3 * 110 + 3 * 4 + 1);
  const std::string text = krama::nn::describe(model, 2);
  CHECK_THAT(text, ContainsSubstring("stages.2.110") && ContainsSubstring("(2, 8, 8, 256)") &&
                       ContainsSubstring("10327706") &&
                       ContainsSubstring(std::to_string(krama::nn::flops(model, 2))));
  const auto large = resnet<D, float>(resnet50());
  CHECK_THAT(krama::nn::describe(large, 2),
             ContainsSubstring("(2, 7, 7, 2048)") && ContainsSubstring("25557032"));
}

TEST_CASE("models: residual networks that cannot work are refused", "[models]") {
  CHECK_THROWS_WITH((resnet<D, float>({.stages = {}})), ContainsSubstring("0 stages"));
  CHECK_THROWS_WITH(wide_resnet(27, 10), ContainsSubstring("6 blocks + 4"));
  CHECK_THROWS_WITH((preact_resnet<D, float>({.blocks = 0})), ContainsSubstring("0 blocks"));
  CHECK_THROWS_WITH((preact_resnet<D, float>({.blocks = 1, .bottleneck = true, .dropout = 0.3})),
                    ContainsSubstring("no dropout"));
}
