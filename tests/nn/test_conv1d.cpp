// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/conv1d.hpp>

#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::Conv1d;

TEMPLATE_TEST_CASE("conv1d: gradients and contract", "[nn]", double, float) {
  struct Case {
    Conv1d layer;
    Shape in, out;
  };
  const std::vector<Case> cases = {
      {{.in_channels = 3, .out_channels = 4, .bias = false}, {2, 9, 3}, {2, 7, 4}},
      {{.in_channels = 2, .out_channels = 3, .kernel = 5, .stride = 2, .padding = 2, .dilation = 2},
       {2, 11, 2},
       {2, 4, 3}},
      {{.in_channels = 4, .out_channels = 4, .padding = 1, .groups = 4}, {1, 6, 4}, {1, 6, 4}},
      {{.in_channels = 3, .out_channels = 2, .kernel = 1}, {3, 5, 3}, {3, 5, 2}},
  };
  for (const auto& c : cases) {
    INFO("input " << to_string(c.in));
    CHECK(c.layer.out(c.in) == c.out);
    CHECK(testing::check_layer<TestDevice, TestType>(c.layer, c.in).text() == "");
  }
}

TEST_CASE("conv1d: values are the definition's", "[nn]") {
  // Two channels, three taps, one zero on each side, every second place.
  const Conv1d layer{.in_channels = 2, .out_channels = 1, .stride = 2, .padding = 1};
  const std::vector<double> x{1, 10, 2, 20, 3, 30, 4, 40};
  const std::vector<double> params{1, 2, 3, 4, 5, 6, 0.5};  // (tap, channel), then the bias
  const auto r = test::run_layer<double>(layer, {1, 4, 2}, x, params, std::vector<double>{1, -1});
  CHECK(r.y == std::vector<double>{3 + 40 + 10 + 120 + 0.5, 2 + 40 + 9 + 120 + 20 + 240 + 0.5});
  CHECK(r.dx == std::vector<double>{3, 4, 4, 4, -3, -4, -5, -6});
  CHECK(r.grads == std::vector<double>{-2, -20, -2, -20, -2, -20, 0});
}

TEST_CASE("conv1d: misfits say what was found and wanted", "[nn]") {
  const Conv1d conv{.in_channels = 3, .out_channels = 4};
  CHECK_THROWS_WITH(
      conv.out({2, 3, 8}),
      ContainsSubstring("conv1d: wanted an input (samples, length, 3), found (2, 3, 8)"));
  CHECK_THROWS_AS(conv.out({2, 2, 3}), Error);
}
