// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// U-Net's number of parameters, counted by hand from the paper's figure: 64 channels, doubled at each
// of four pools, biases everywhere. The paper prints none.

#include <krama/models/unet.hpp>
#include <krama/nn/describe.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama::models;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using krama::Shape;
using krama::nn::parameter_count;

namespace {

std::int64_t by_hand(const std::vector<std::int64_t>& levels, std::int64_t in,
                     std::int64_t classes) {
  std::int64_t n = 0;
  const auto conv = [&](std::int64_t from, std::int64_t to, std::int64_t taps) {
    n += (taps * from + 1) * to;
  };
  for (const auto width : levels) {
    conv(in, width, 9);
    conv(width, width, 9);
    in = width;
  }
  for (std::size_t l = levels.size() - 1; l-- > 0;) {
    conv(levels[l + 1], levels[l], 4);
    conv(2 * levels[l], levels[l], 9);
    conv(levels[l], levels[l], 9);
  }
  conv(levels[0], classes, 1);
  return n;
}

}  // namespace

TEST_CASE("models: U-Net has the paper's sizes", "[models]") {
  const auto paper = unet<D, float>({});
  CHECK(by_hand({64, 128, 256, 512, 1024}, 1, 2) == 31'030'658);
  CHECK(parameter_count(paper) == 31'030'658);
  CHECK(paper.shape(paper.output_value(), 1) == Shape{1, 388, 388, 2});
  const auto text = krama::nn::describe(paper, 1);
  CHECK_THAT(text,
             ContainsSubstring("(1, 28, 28, 1024)") && ContainsSubstring("(1, 392, 392, 128)"));
  const auto padded = unet<D, float>({.height = 250, .width = 256, .padded = true});
  CHECK(padded.shape(padded.output_value(), 1) == Shape{1, 240, 256, 2});
  const auto filled =
      unet<D, float>({.height = 251, .width = 255, .padded = true, .skips = krama::nn::Fit::pad});
  CHECK(filled.shape(filled.output_value(), 1) == Shape{1, 251, 255, 2});
}

TEST_CASE("models: U-Net counts the operations of its joins and of growing", "[models]") {
  const auto net = unet<D, float>({.height = 8, .width = 8, .levels = {3, 5}, .padded = true});
  // down.0, pool, bottom, grow, join, up.0, head.
  REQUIRE(net.block_count() == 7);
  CHECK(net.flops(0, 1) == 64 * (2 * 9 * (3 + 9) + 6));
  CHECK(net.flops(1, 1) == 16 * 3 * 4);
  CHECK(net.flops(3, 1) == 16 * 2 * 5 * 4 * 3);
  CHECK(net.flops(4, 1) == 0);
}

TEST_CASE("models: U-Nets that cannot work are refused", "[models]") {
  CHECK_THROWS_WITH((unet<D, float>({.levels = {64}})), ContainsSubstring("two are the least"));
  CHECK_THROWS_WITH((unet<D, float>({.skips = krama::nn::Fit::exact})),
                    ContainsSubstring("block \"up.3.join\"") && ContainsSubstring("Fit::crop"));
  CHECK_THROWS_WITH((unet<D, float>({.height = 20})), ContainsSubstring("covers 3 x 3 pixels"));
}
