// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/group_norm.hpp>
#include <krama/testing/check_layer.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

namespace {

using krama::Shape;
using krama::nn::GroupNorm;
using krama::test::run_layer;
using krama::test::values;
using krama::test::worst;

/// Plain formulas in double; x is (images, rows, channels).
struct Reference {
  std::vector<double> y, dx, grads;
};
template <class T>
Reference reference(const GroupNorm& layer, std::size_t images, std::size_t rows,
                    const std::vector<T>& x, const std::vector<krama::accum_t<T>>& params,
                    const std::vector<T>& dy) {
  const auto channels = static_cast<std::size_t>(layer.channels);
  const std::size_t each = channels / static_cast<std::size_t>(layer.groups);
  const auto of = [](T v) { return static_cast<double>(static_cast<krama::accum_t<T>>(v)); };
  Reference ref{std::vector<double>(x.size()), std::vector<double>(x.size()),
                std::vector<double>(2 * channels)};
  for (std::size_t g = 0; g < images * channels / each; ++g) {
    const std::size_t image = g / (channels / each);
    const std::size_t first = g % (channels / each) * each;
    std::vector<std::size_t> at;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < each; ++c)
        at.push_back((image * rows + r) * channels + first + c);
    }
    const double m = static_cast<double>(at.size());
    double mean = 0, variance = 0;
    for (const auto i : at) mean += of(x[i]) / m;
    for (const auto i : at) variance += (of(x[i]) - mean) * (of(x[i]) - mean) / m;
    const double s = 1.0 / std::sqrt(variance + layer.epsilon);
    double mean_g = 0, mean_gx = 0;
    for (const auto i : at) {
      const std::size_t c = i % channels;
      const double xhat = (of(x[i]) - mean) * s;
      ref.y[i] = xhat * params[c] + params[channels + c];
      ref.grads[c] += of(dy[i]) * xhat;
      ref.grads[channels + c] += of(dy[i]);
      mean_g += of(dy[i]) * params[c] / m;
      mean_gx += of(dy[i]) * params[c] * xhat / m;
    }
    for (const auto i : at) {
      const double xhat = (of(x[i]) - mean) * s;
      ref.dx[i] = s * (of(dy[i]) * params[i % channels] - mean_g - xhat * mean_gx);
    }
  }
  return ref;
}

}  // namespace

TEMPLATE_TEST_CASE("group_norm: contract of a layer", "", double, float) {
  for (const auto& [groups, shape] : {std::pair{std::int64_t{2}, Shape{3, 2, 5, 6}},
                                      {1, {2, 3, 3, 4}},
                                      {5, {2, 2, 3, 5}},
                                      {3, {4, 9}},
                                      {2, {2, 70, 4}}}) {
    const GroupNorm layer{.groups = groups, .channels = shape[-1]};
    const auto r = krama::testing::check_layer<TestDevice, TestType>(layer, shape);
    INFO(groups << " groups of " << krama::to_string(shape) << r.text());
    CHECK(r.ok());
  }
}

TEMPLATE_TEST_CASE("group_norm: values and gradients follow the plain formulas", "", double, float,
                   krama::bf16, krama::f16) {
  const double tolerance = std::is_same_v<TestType, double>        ? 1e-11
                           : std::is_same_v<TestType, float>       ? 1e-5
                           : std::is_same_v<TestType, krama::bf16> ? 3e-2
                                                                   : 4e-3;
  for (const std::int64_t images : {1, 3}) {
    for (const std::int64_t rows : {1, 127, 128, 129, 300}) {
      for (const auto& [groups, channels] :
           {std::pair<std::int64_t, std::int64_t>{2, 6}, {1, 65}, {64, 64}, {10, 130}}) {
        if (rows * channels / groups < 2) continue;  // one element a group: y is the bias
        CAPTURE(images, rows, groups, channels);
        const GroupNorm layer{.groups = groups, .channels = channels};
        const auto x = values<TestType>(images * rows * channels, 1, -1.0, 3.0);
        const auto dy = values<TestType>(images * rows * channels, 2);
        auto params = values<krama::accum_t<TestType>>(2 * channels, 3, 0.5, 1.5);
        for (auto& p : params) {
          p = static_cast<krama::accum_t<TestType>>(static_cast<TestType>(p));
        }
        const auto got = run_layer<TestType>(layer, {images, rows, channels}, x, params, dy);
        const auto want = reference<TestType>(layer, static_cast<std::size_t>(images),
                                              static_cast<std::size_t>(rows), x, params, dy);
        CHECK(worst(got.y, want.y) <= tolerance);
        CHECK(worst(got.dx, want.dx) <= tolerance);
        const double count = static_cast<double>(images * rows);
        CHECK(worst(got.grads, want.grads) <= tolerance * std::sqrt(count));
      }
    }
  }
}

TEST_CASE("group_norm: N09 a constant group stays finite, N11 values far from zero keep theirs") {
  const auto flat =
      run_layer<float>(GroupNorm{.groups = 1, .channels = 2}, {1, 4, 2},
                       std::vector<float>(8, 3.0F), {1, 1, 0.5, -2}, {1, 0, 0, 0, 0, 0, 0, 0});
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(flat.y[i] == (i % 2 == 0 ? 0.5F : -2.0F));
    CHECK(std::isfinite(flat.dx[i]));
  }
  std::vector<float> x;
  for (int i = 0; i < 600; ++i) x.push_back(8192.0F + static_cast<float>(i % 2));
  const auto far = run_layer<float>(GroupNorm{.groups = 1, .channels = 3}, {1, 200, 3}, x, {},
                                    std::vector<float>(600, 0.0F));
  for (const float y : far.y) CHECK(std::abs(std::abs(y) - 1.0F) < 1e-3F);
}

TEST_CASE("group_norm: an empty batch, and what is refused") {
  const auto none = run_layer<float>(GroupNorm{.groups = 2, .channels = 4}, {0, 3, 4},
                                     std::vector<float>{}, {}, std::vector<float>{});
  CHECK(none.y.empty());
  for (const float g : none.grads) CHECK(g == 0.0F);
  CHECK_THROWS_WITH((GroupNorm{.groups = 2, .channels = 4}.out({2, 3, 5})),
                    "group_norm: the input must be (images, …, channels) with 4 channels, found "
                    "(2, 3, 5)");
  krama::ParamSpec spec;
  CHECK_THROWS_WITH((GroupNorm{.groups = 3, .channels = 4}.params(spec)),
                    "group_norm: 4 channels cannot be cut into 3 groups of equal length");
  CHECK_THROWS_AS((GroupNorm{.groups = 2, .channels = 4, .epsilon = 0}.params(spec)), krama::Error);
}
