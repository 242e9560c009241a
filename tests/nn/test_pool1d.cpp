// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/avg_pool1d.hpp>
#include <krama/nn/layers/max_pool1d.hpp>

#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::AvgPool1d;
using nn::MaxPool1d;

namespace {

struct Case {
  std::int64_t kernel, stride, padding;
  Shape in, out;
};

std::vector<Case> cases() {
  return {
      {2, 2, 0, {2, 6, 3}, {2, 3, 3}},   {3, 2, 1, {2, 7, 5}, {2, 4, 5}},  // windows overlap
      {2, 3, 0, {3, 9, 33}, {3, 3, 33}},  // some elements are in no window
      {5, 1, 0, {1, 5, 2}, {1, 1, 2}},   {2, 2, 1, {1, 1, 70}, {1, 1, 70}},
  };
}

/// The definition in double: y and dx.
template <class T>
void compare(const Case& p, const test::LayerRun<T>& got, const std::vector<T>& x,
             const std::vector<T>& dy, bool largest, bool count_padding, double tolerance) {
  std::vector<double> y(dy.size()), dx(x.size());
  const std::int64_t channels = p.in[2];
  const auto at = [&](std::int64_t sample, std::int64_t place, std::int64_t c, const Shape& s) {
    return static_cast<std::size_t>((sample * s[1] + place) * channels + c);
  };
  for (std::int64_t i = 0; i < p.out.size(); ++i) {
    const std::int64_t c = i % channels, o = i / channels % p.out[1], n = i / channels / p.out[1];
    std::vector<std::size_t> inside;
    for (std::int64_t k = 0; k < p.kernel; ++k) {
      const std::int64_t from = o * p.stride - p.padding + k;
      if (from >= 0 && from < p.in[1]) inside.push_back(at(n, from, c, p.in));
    }
    const auto yi = at(n, o, c, p.out);
    const double up = static_cast<double>(static_cast<accum_t<T>>(dy[yi]));
    const auto value = [&](std::size_t e) {
      return static_cast<double>(static_cast<accum_t<T>>(x[e]));
    };
    if (largest) {
      std::size_t best = inside.at(0);
      for (const auto e : inside) best = value(e) > value(best) ? e : best;
      y[yi] = value(best);
      dx[best] += up;
      continue;
    }
    const double n_taps =
        count_padding ? static_cast<double>(p.kernel) : static_cast<double>(inside.size());
    for (const auto e : inside) {
      y[yi] += value(e) / n_taps;
      dx[e] += up / n_taps;
    }
  }
  CHECK(test::worst(got.y, y) <= tolerance);
  CHECK(test::worst(got.dx, dx) <= tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("pools of signals: gradients and contract", "[nn]", double, float) {
  for (const auto& p : cases()) {
    INFO("input " << to_string(p.in) << ", kernel " << p.kernel);
    // Steps smaller than the distance of a window's two largest elements.
    const testing::CheckOptions options{.step = std::is_same_v<TestType, double> ? 1e-7 : 3e-4,
                                        .tolerance = 1e-2};
    const MaxPool1d most{p.kernel, p.stride, p.padding};
    CHECK(most.out(p.in) == p.out);
    CHECK(testing::check_layer<TestDevice, TestType>(most, p.in, options).text() == "");
    for (const bool count : {true, false}) {
      const AvgPool1d mean{p.kernel, p.stride, p.padding, count};
      CHECK(mean.out(p.in) == p.out);
      CHECK(testing::check_layer<TestDevice, TestType>(mean, p.in).text() == "");
    }
  }
}

TEMPLATE_TEST_CASE("pools of signals: values and gradients are the definition's", "[nn]", double,
                   float, bf16, f16) {
  using T = TestType;
  const double tolerance = std::is_same_v<T, double>  ? 1e-14
                           : std::is_same_v<T, float> ? 1e-6
                           : std::is_same_v<T, bf16>  ? 2e-2
                                                      : 2e-3;
  for (const auto& p : cases()) {
    INFO("input " << to_string(p.in) << ", kernel " << p.kernel);
    const auto x = test::values<T>(p.in.size(), 1);
    const auto dy = test::values<T>(p.out.size(), 2);
    const auto run = [&](const auto& layer) { return test::run_layer<T>(layer, p.in, x, {}, dy); };
    compare<T>(p, run(MaxPool1d{p.kernel, p.stride, p.padding}), x, dy, true, true, tolerance);
    compare<T>(p, run(AvgPool1d{p.kernel, p.stride, p.padding, true}), x, dy, false, true,
               tolerance);
    compare<T>(p, run(AvgPool1d{p.kernel, p.stride, p.padding, false}), x, dy, false, false,
               tolerance);
  }
}

TEST_CASE("pools of signals: misfits say what was found and wanted", "[nn]") {
  CHECK_THROWS_WITH((MaxPool1d{}.out({4, 4, 4, 3})),
                    "max_pool1d: wanted an input (samples, length, channels), found (4, 4, 4, 3)");
  CHECK_THROWS_WITH((AvgPool1d{5, 2}.out({1, 4, 3})),
                    ContainsSubstring("avg_pool1d: the kernel covers 1 x 5 pixels, found an input "
                                      "of 1 x 4"));
  CHECK_THROWS_WITH((MaxPool1d{2, 2, 2}.out({1, 4, 3})),
                    ContainsSubstring("half the kernel at most"));
  CHECK_THROWS_WITH((AvgPool1d{2, 0}.out({1, 4, 3})), ContainsSubstring("must be positive"));
}
