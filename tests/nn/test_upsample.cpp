// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/upsample.hpp>
#include <krama/testing/check_layer.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

using krama::Shape;
using krama::nn::Interpolation;
using krama::nn::Upsample;
using krama::test::run_layer;
using krama::test::values;

TEMPLATE_TEST_CASE("upsample: contract of a layer", "", double, float) {
  for (const auto mode : {Interpolation::nearest, Interpolation::bilinear}) {
    for (const std::int64_t factor : {1, 2, 3}) {
      for (const auto& shape : {Shape{2, 3, 4, 2}, Shape{1, 1, 5, 3}, Shape{2, 2, 1, 65}}) {
        const auto r =
            krama::testing::check_layer<TestDevice, TestType>(Upsample{factor, mode}, shape);
        INFO(factor << krama::to_string(shape) << r.text());
        CHECK(r.ok());
      }
    }
  }
}

TEMPLATE_TEST_CASE("upsample: values follow the definition, dx is its transpose", "", double, float,
                   krama::bf16) {
  using T = TestType;
  using A = krama::accum_t<T>;
  const double tolerance = std::is_same_v<T, double>  ? 1e-14
                           : std::is_same_v<T, float> ? 2e-6
                                                      : 4e-2;
  for (const auto mode : {Interpolation::nearest, Interpolation::bilinear}) {
    for (const std::int64_t f : {2, 3}) {
      const std::int64_t H = 4, W = 5, C = 70;
      const auto x = values<T>(2 * H * W * C, 1);
      const auto dy = values<T>(2 * H * W * C * f * f, 2);
      const auto got = run_layer<T>(Upsample{f, mode}, {2, H, W, C}, x, {}, dy);
      std::vector<double> dx(x.size());
      double worst = 0;
      const auto source = [&](std::int64_t o, std::int64_t size) {
        const double at = (static_cast<double>(o) + 0.5) / static_cast<double>(f) - 0.5;
        const double held = std::max(0.0, at);
        const auto low = static_cast<std::int64_t>(held);
        return std::tuple(low, std::min(low + 1, size - 1), held - static_cast<double>(low));
      };
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(dy.size()); ++k) {
        const auto c = k % C, ow = k / C % (W * f), oh = k / C / (W * f) % (H * f);
        const auto n = k / C / (W * f) / (H * f);
        const auto place = [&](std::int64_t h, std::int64_t w) {
          return static_cast<std::size_t>(((n * H + h) * W + w) * C + c);
        };
        const double up = static_cast<double>(static_cast<A>(dy[static_cast<std::size_t>(k)]));
        double y = 0;
        const auto take = [&](std::int64_t h, std::int64_t w, double share) {
          y += share * static_cast<double>(static_cast<A>(x[place(h, w)]));
          dx[place(h, w)] += share * up;
        };
        if (mode == Interpolation::nearest) {
          take(oh / f, ow / f, 1.0);
        } else {
          const auto [h0, h1, dh] = source(oh, H);
          const auto [w0, w1, dw] = source(ow, W);
          take(h0, w0, (1 - dh) * (1 - dw));
          take(h0, w1, (1 - dh) * dw);
          take(h1, w0, dh * (1 - dw));
          take(h1, w1, dh * dw);
        }
        worst = std::max(worst, std::abs(double(got.y[static_cast<std::size_t>(k)]) - y));
      }
      CHECK(worst <= tolerance);
      worst = 0;
      for (std::size_t i = 0; i < dx.size(); ++i) {
        worst = std::max(worst, std::abs(double(got.dx[i]) - dx[i]));
      }
      CHECK(worst <= tolerance * static_cast<double>(f * f));
    }
  }
}

TEST_CASE("upsample: a constant image stays one, and what is refused") {
  const auto flat =
      run_layer<float>(Upsample{2, Interpolation::bilinear}, {1, 3, 3, 2},
                       std::vector<float>(18, 2.5F), {}, std::vector<float>(72, 1.0F));
  for (const float y : flat.y) CHECK(y == 2.5F);
  CHECK_THROWS_AS((Upsample{0}.out({1, 2, 2, 1})), krama::Error);
  CHECK_THROWS_WITH(
      (Upsample{2}.out({2, 2, 1})),
      "upsample: the input must be (images, height, width, channels), found (2, 2, 1)");
}
