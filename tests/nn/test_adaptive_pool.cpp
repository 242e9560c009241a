// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/adaptive_avg_pool2d.hpp>

#include <krama/nn/layers/avg_pool2d.hpp>
#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::AdaptiveAvgPool2d;
using test::run_layer;
using test::values;

namespace {

struct Case {
  nn::Size2 output;
  Shape in;
};

std::vector<Case> cases() {
  return {
      {1, {2, 5, 3, 4}},       {{2, 3}, {2, 4, 9, 3}},  // divides
      {{3, 2}, {2, 7, 5, 3}},                           // windows overlap
      {{7, 5}, {1, 3, 2, 33}},                          // larger than the input
      {{3, 4}, {2, 3, 4, 70}},                          // the same
      {{5, 6}, {1, 8, 1, 2}},
  };
}

/// PyTorch's rule with a division in double, rounded; the sizes here are small.
std::pair<std::int64_t, std::int64_t> window(std::int64_t o, std::int64_t out, std::int64_t in) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double begin = static_cast<double>(o) * scale;
  const double end = static_cast<double>(o + 1) * scale;
  return {static_cast<std::int64_t>(std::floor(begin + 1e-9)),
          static_cast<std::int64_t>(std::ceil(end - 1e-9))};
}

}  // namespace

TEMPLATE_TEST_CASE("adaptive_avg_pool2d: gradients and contract", "[nn]", double, float) {
  for (const auto& p : cases()) {
    INFO("input " << to_string(p.in) << ", output " << p.output.h << " x " << p.output.w);
    const AdaptiveAvgPool2d layer{p.output};
    CHECK(layer.out(p.in) == Shape{p.in[0], p.output.h, p.output.w, p.in[3]});
    CHECK(testing::check_layer<TestDevice, TestType>(layer, p.in).text() == "");
  }
}

TEMPLATE_TEST_CASE("adaptive_avg_pool2d: values and gradients are the definition's", "[nn]", double,
                   float, bf16, f16) {
  using T = TestType;
  using A = accum_t<T>;
  const double tolerance = std::is_same_v<T, double>  ? 1e-13
                           : std::is_same_v<T, float> ? 1e-5
                           : std::is_same_v<T, bf16>  ? 1e-2
                                                      : 2e-3;
  for (const auto& p : cases()) {
    INFO("input " << to_string(p.in) << ", output " << p.output.h << " x " << p.output.w);
    const AdaptiveAvgPool2d layer{p.output};
    const Shape out = layer.out(p.in);
    const auto x = values<T>(p.in.size(), 1);
    const auto dy = values<T>(out.size(), 2);
    const auto got = run_layer<T>(layer, p.in, x, {}, dy);
    std::vector<double> y(dy.size()), dx(x.size());
    for (std::int64_t i = 0; i < out.size(); ++i) {
      const std::int64_t c = i % out[3], ow = i / out[3] % out[2];
      const std::int64_t oh = i / out[3] / out[2] % out[1], n = i / out[3] / out[2] / out[1];
      const auto [h0, h1] = window(oh, out[1], p.in[1]);
      const auto [w0, w1] = window(ow, out[2], p.in[2]);
      const double count = static_cast<double>((h1 - h0) * (w1 - w0));
      const auto yi = static_cast<std::size_t>(i);
      for (std::int64_t h = h0; h < h1; ++h) {
        for (std::int64_t w = w0; w < w1; ++w) {
          const auto xi = static_cast<std::size_t>(((n * p.in[1] + h) * p.in[2] + w) * p.in[3] + c);
          y[yi] += static_cast<double>(static_cast<A>(x[xi])) / count;
          dx[xi] += static_cast<double>(static_cast<A>(dy[yi])) / count;
        }
      }
    }
    CHECK(test::worst_relative(got.y, y) <= tolerance);
    CHECK(test::worst_relative(got.dx, dx) <= tolerance);
  }
}

TEST_CASE("adaptive_avg_pool2d: where the sizes divide it is avg_pool2d", "[nn]") {
  const Shape in{2, 6, 8, 5};
  const auto x = values<double>(in.size(), 1);
  const auto dy = values<double>(2 * 3 * 2 * 5, 2);
  const auto adaptive = run_layer<double>(AdaptiveAvgPool2d{{3, 2}}, in, x, {}, dy);
  const auto plain = run_layer<double>(nn::AvgPool2d{{2, 4}, {2, 4}}, in, x, {}, dy);
  CHECK(adaptive.y == plain.y);
  CHECK(adaptive.dx == plain.dx);
  CHECK(AdaptiveAvgPool2d{{3, 2}}.flops(in) == in.size());
  CHECK(AdaptiveAvgPool2d{{2, 1}}.flops({1, 3, 1, 1}) == 4);  // rows 0-1 and 1-2
}

TEST_CASE("adaptive_avg_pool2d: misfits say what was found and wanted", "[nn]") {
  CHECK_THROWS_WITH((AdaptiveAvgPool2d{}.out({4, 4, 3})),
                    ContainsSubstring("(images, height, width, channels), found (4, 4, 3)"));
  CHECK_THROWS_WITH((AdaptiveAvgPool2d{{0, 2}}.out({1, 4, 4, 3})),
                    ContainsSubstring("must be positive, found 0 x 2"));
  CHECK_THROWS_AS((AdaptiveAvgPool2d{}.out({1, 0, 4, 3})), Error);
}
