// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/avg_pool2d.hpp>
#include <krama/nn/layers/flatten.hpp>
#include <krama/nn/layers/global_avg_pool2d.hpp>
#include <krama/nn/layers/max_pool2d.hpp>

#include <krama/nn/chain.hpp>
#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "nn/scale_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <limits>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::AvgPool2d;
using nn::Flatten;
using nn::GlobalAvgPool2d;
using nn::MaxPool2d;
using nn::Size2;
using test::run_layer;
using test::values;
using test::worst;

namespace {

struct Case {
  Size2 kernel, stride, padding;
  Shape in;
};

std::vector<Case> cases() {
  return {
      {2, 2, 0, {2, 6, 4, 3}},
      {3, 2, 1, {2, 7, 6, 5}},  // windows overlap
      {{2, 3}, {1, 2}, {1, 0}, {1, 4, 8, 2}},
      {2, 3, 0, {2, 6, 7, 33}},      // some pixels are in no window
      {{4, 5}, 1, 0, {3, 4, 5, 2}},  // one place
      {1, 1, 0, {1, 3, 2, 4}},
      {2, 2, 1, {1, 1, 1, 70}},
  };
}

/// The definition in double: y and dx of a pool.
struct Reference {
  std::vector<double> y, dx;
};
template <class T>
Reference reference(const Case& p, bool largest, bool count_padding, const Shape& out,
                    const std::vector<T>& x, const std::vector<T>& dy) {
  Reference r{std::vector<double>(static_cast<std::size_t>(out.size())),
              std::vector<double>(x.size())};
  std::size_t yi = 0;
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t oh = 0; oh < out[1]; ++oh) {
      for (std::int64_t ow = 0; ow < out[2]; ++ow) {
        for (std::int64_t c = 0; c < out[3]; ++c, ++yi) {
          std::vector<std::size_t> pixels;
          for (std::int64_t kh = 0; kh < p.kernel.h; ++kh) {
            for (std::int64_t kw = 0; kw < p.kernel.w; ++kw) {
              const std::int64_t ih = oh * p.stride.h - p.padding.h + kh;
              const std::int64_t iw = ow * p.stride.w - p.padding.w + kw;
              if (ih < 0 || ih >= p.in[1] || iw < 0 || iw >= p.in[2]) continue;
              pixels.push_back(
                  static_cast<std::size_t>(((n * p.in[1] + ih) * p.in[2] + iw) * p.in[3] + c));
            }
          }
          const auto up = static_cast<double>(dy[yi]);
          if (largest) {
            std::size_t best = pixels.at(0);
            for (const auto i : pixels) best = x[i] > x[best] ? i : best;
            r.y[yi] = static_cast<double>(x[best]);
            r.dx[best] += up;
          } else {
            const auto n_taps = static_cast<double>(
                count_padding ? p.kernel.h * p.kernel.w : static_cast<std::int64_t>(pixels.size()));
            for (const auto i : pixels) {
              r.y[yi] += static_cast<double>(x[i]) / n_taps;
              r.dx[i] += up / n_taps;
            }
          }
        }
      }
    }
  }
  return r;
}

template <class T, class L>
void compare(const L& layer, const Case& p, bool largest, bool count_padding) {
  const auto x = values<T>(p.in.size(), 1);
  const auto dy = values<T>(layer.out(p.in).size(), 2);
  const auto got = run_layer<T>(layer, p.in, x, {}, dy);
  const auto want = reference(p, largest, count_padding, layer.out(p.in), x, dy);
  const double tolerance = std::is_same_v<T, double> ? 1e-14 : 1e-6;
  CHECK(worst(got.y, want.y) <= tolerance);
  CHECK(worst(got.dx, want.dx) <= tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("max_pool2d: gradients and contract", "[nn]", double, float) {
  for (const auto& p : cases()) {
    INFO("input " << to_string(p.in) << ", kernel " << p.kernel.h << " x " << p.kernel.w);
    // Steps smaller than the distance of a window's two largest elements.
    const testing::CheckOptions options{.step = std::is_same_v<TestType, double> ? 1e-7 : 3e-4,
                                        .tolerance = 1e-2};
    const MaxPool2d layer{p.kernel, p.stride, p.padding};
    CHECK(testing::check_layer<TestDevice, TestType>(layer, p.in, options).text() == "");
  }
}

TEMPLATE_TEST_CASE("avg_pool2d: gradients and contract", "[nn]", double, float) {
  for (const auto& p : cases()) {
    for (const bool count : {true, false}) {
      INFO("input " << to_string(p.in) << ", kernel " << p.kernel.h << " x " << p.kernel.w);
      const AvgPool2d layer{p.kernel, p.stride, p.padding, count};
      CHECK(testing::check_layer<TestDevice, TestType>(layer, p.in).text() == "");
    }
  }
}

TEMPLATE_TEST_CASE("pools: values and gradients are the definition's", "[nn]", double, float) {
  for (const auto& p : cases()) {
    INFO("input " << to_string(p.in) << ", kernel " << p.kernel.h << " x " << p.kernel.w);
    compare<TestType>(MaxPool2d{p.kernel, p.stride, p.padding}, p, true, true);
    compare<TestType>(AvgPool2d{p.kernel, p.stride, p.padding, true}, p, false, true);
    compare<TestType>(AvgPool2d{p.kernel, p.stride, p.padding, false}, p, false, false);
  }
}

TEMPLATE_TEST_CASE("global_avg_pool2d: gradients, contract and values", "[nn]", double, float) {
  for (const auto& in : {Shape{2, 3, 5, 4}, Shape{1, 1, 1, 3}, Shape{3, 2, 2, 70}}) {
    INFO("input " << to_string(in));
    CHECK(testing::check_layer<TestDevice, TestType>(GlobalAvgPool2d{}, in).text() == "");
    const auto x = values<TestType>(in.size(), 1);
    const auto dy = values<TestType>(in[0] * in[3], 2);
    const auto got = run_layer<TestType>(GlobalAvgPool2d{}, in, x, {}, dy);
    const Case whole{{in[1], in[2]}, 1, 0, in};
    const auto want = reference(whole, false, true, {in[0], 1, 1, in[3]}, x, dy);
    CHECK(worst(got.y, want.y) <= 1e-6);
    CHECK(worst(got.dx, want.dx) <= 1e-6);
  }
}

TEST_CASE("max_pool2d: ties, negative values and NaN", "[nn]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Shape in{1, 2, 4, 1};
  // The first window has two largest elements, the second a NaN.
  const std::vector<double> x{-2, -1, 3, nan, -1, -3, 5, 4};
  const auto r = run_layer<double>(MaxPool2d{}, in, x, {}, std::vector<double>{1, 2});
  CHECK(r.y[0] == -1.0);
  CHECK(std::isnan(r.y[1]));
  CHECK(r.dx == std::vector<double>{0, 1, 0, 2, 0, 0, 0, 0});
  // Zeros of the padding are not elements.
  const auto padded = run_layer<double>(MaxPool2d{3, 1, 1}, {1, 1, 1, 1}, std::vector<double>{-4},
                                        {}, std::vector<double>{1});
  CHECK(padded.y[0] == -4.0);
}

TEMPLATE_TEST_CASE("flatten: contract, alone and between layers", "[nn]", double, float) {
  using Scale = test::Scale<nn::Saves::input>;
  CHECK(testing::check_layer<TestDevice, TestType>(Flatten{}, {2, 3, 2, 4}).text() == "");
  const auto chain = nn::chain(AvgPool2d{}, Flatten{}, Scale{8});
  CHECK(testing::check_layer<TestDevice, TestType>(chain, {3, 4, 4, 2}).text() == "");
  CHECK(Flatten{}.out({2, 3, 2, 4}) == Shape{2, 24});
  CHECK(Flatten{}.out({2, 3}) == Shape{2, 3});
  CHECK_THROWS_WITH(Flatten{}.out({3}), ContainsSubstring("found (3)"));
}

TEST_CASE("pools: misfits say what was found and wanted", "[nn]") {
  CHECK_THROWS_WITH(
      (MaxPool2d{}.out({4, 4, 3})),
      "max_pool2d: wanted an input (images, height, width, channels), found (4, 4, 3)");
  CHECK_THROWS_WITH(
      (AvgPool2d{5, 2}.out({1, 4, 9, 3})),
      ContainsSubstring("avg_pool2d: the kernel covers 5 x 5 pixels, found an input of "
                        "4 x 9"));
  CHECK_THROWS_WITH((MaxPool2d{2, 2, 2}.out({1, 4, 4, 3})),
                    ContainsSubstring("half the kernel at most, found 2 x 2"));
  CHECK_THROWS_WITH((MaxPool2d{2, 0}.out({1, 4, 4, 3})), ContainsSubstring("must be positive"));
  CHECK_THROWS_AS((GlobalAvgPool2d{}.out({1, 4, 3})), Error);
}
