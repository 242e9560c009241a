// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/layer_norm.hpp>
#include <krama/nn/layers/rms_norm.hpp>
#include <krama/testing/check_layer.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

namespace {

using krama::Shape;
using krama::nn::LayerNorm;
using krama::nn::RmsNorm;
using krama::test::run_layer;
using krama::test::values;

/// Plain formulas in double.
struct Reference {
  std::vector<double> y, dx, dgamma, dbeta;
};
template <class T>
Reference reference(bool centred, std::size_t rows, std::size_t n, const std::vector<T>& x,
                    const std::vector<krama::accum_t<T>>& params, const std::vector<T>& dy,
                    double eps) {
  using A = krama::accum_t<T>;
  Reference ref{std::vector<double>(rows * n), std::vector<double>(rows * n),
                std::vector<double>(n), std::vector<double>(n)};
  const auto at = [](const std::vector<T>& v, std::size_t i) {
    return static_cast<double>(static_cast<A>(v[i]));
  };
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0.0, var = 0.0;
    for (std::size_t i = 0; i < n && centred; ++i) mean += at(x, r * n + i) / double(n);
    for (std::size_t i = 0; i < n; ++i) {
      var += std::pow(at(x, r * n + i) - mean, 2) / double(n);
    }
    const double s = 1.0 / std::sqrt(var + eps);
    double mean_g = 0.0, mean_gx = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const double xhat = (at(x, r * n + i) - mean) * s;
      const double g = at(dy, r * n + i) * params[i];
      ref.y[r * n + i] = xhat * params[i] + (centred ? params[n + i] : 0.0);
      ref.dgamma[i] += at(dy, r * n + i) * xhat;
      ref.dbeta[i] += at(dy, r * n + i);
      mean_g += centred ? g / double(n) : 0.0;
      mean_gx += g * xhat / double(n);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double xhat = (at(x, r * n + i) - mean) * s;
      ref.dx[r * n + i] = s * (at(dy, r * n + i) * params[i] - mean_g - xhat * mean_gx);
    }
  }
  return ref;
}

template <class A>
double worst(const std::vector<A>& got, std::size_t offset, const std::vector<double>& want) {
  double d = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double e = std::abs(static_cast<double>(got.at(offset + i)) - want[i]);
    d = e >= d ? e : (std::isnan(e) ? 1e30 : d);
  }
  return d;
}

template <class T, class L>
void compare(const L& layer, bool centred, std::int64_t rows, std::int64_t n, double tolerance) {
  CAPTURE(rows, n, centred);
  const auto x = values<T>(rows * n, 1, -1.0, 3.0);
  const auto dy = values<T>(rows * n, 2);
  const auto params = values<krama::accum_t<T>>(centred ? 2 * n : n, 3, 0.5, 1.5);
  // Half types compute with parameters rounded to the type; the reference must too.
  std::vector<krama::accum_t<T>> rounded;
  for (const auto p : params) {
    rounded.push_back(static_cast<krama::accum_t<T>>(static_cast<T>(p)));
  }
  const auto got = run_layer<T>(layer, {rows, n}, x, rounded, dy);
  const auto columns = static_cast<std::size_t>(n);
  const auto want =
      reference<T>(centred, static_cast<std::size_t>(rows), columns, x, rounded, dy, layer.epsilon);
  CHECK(worst(got.y, 0, want.y) <= tolerance);
  CHECK(worst(got.dx, 0, want.dx) <= tolerance);
  const double rows_sum = tolerance * std::sqrt(static_cast<double>(rows));
  CHECK(worst(got.grads, 0, want.dgamma) <= rows_sum);
  if (centred) CHECK(worst(got.grads, columns, want.dbeta) <= rows_sum);
}

}  // namespace

TEMPLATE_TEST_CASE("layer_norm: contract of a layer", "", double, float) {
  for (const auto& shape : {Shape{3, 5}, Shape{2, 3, 17}, Shape{70, 4}, Shape{1, 2}}) {
    const auto n = shape[-1];
    const LayerNorm layer{.features = n};
    const auto r = krama::testing::check_layer<TestDevice, TestType>(layer, shape);
    INFO(krama::to_string(shape) << r.text());
    CHECK(r.ok());
  }
}

TEMPLATE_TEST_CASE("rms_norm: contract of a layer", "", double, float) {
  for (const auto& shape : {Shape{3, 5}, Shape{2, 3, 17}, Shape{70, 4}, Shape{5, 1}}) {
    const auto n = shape[-1];
    const auto r = krama::testing::check_layer<TestDevice, TestType>(RmsNorm{.features = n}, shape);
    INFO(krama::to_string(shape) << r.text());
    CHECK(r.ok());
  }
}

TEMPLATE_TEST_CASE("norm: values and gradients follow the plain formulas", "", double, float,
                   krama::bf16, krama::f16) {
  const double tolerance = std::is_same_v<TestType, double>        ? 1e-12
                           : std::is_same_v<TestType, float>       ? 4e-6
                           : std::is_same_v<TestType, krama::bf16> ? 3e-2
                                                                   : 4e-3;
  for (const std::int64_t rows : {1, 31, 32, 33, 200}) {
    for (const std::int64_t n : {5, 15, 16, 100}) {
      compare<TestType>(LayerNorm{.features = n}, true, rows, n, tolerance);
      compare<TestType>(RmsNorm{.features = n}, false, rows, n, tolerance);
    }
  }
}

TEMPLATE_TEST_CASE("norm: N09 a constant row and a row of zeros stay finite", "", double, float) {
  const double eps = 1e-5;
  const std::vector<TestType> x{2, 2, 2, 2, 0, 0, 0, 0};
  const std::vector<TestType> dy{1, 0, 0, 0, 1, 0, 0, 0};
  const std::vector<krama::accum_t<TestType>> params{1, 1, 1, 1, 0.5, 0.25, -1, 2};
  const auto got =
      run_layer<TestType>(LayerNorm{.features = 4, .epsilon = eps}, {2, 4}, x, params, dy);
  const double scale = 1.0 / std::sqrt(eps);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(got.y[i] == params[4 + i % 4]);  // exactly the bias
    const double want = scale * ((i % 4 == 0 ? 1.0 : 0.0) - 0.25);
    CHECK(std::abs(double(got.dx[i]) - want) <= 1e-4 * scale);
  }
  const std::vector<TestType> zeros(4, TestType(0));
  const auto rms = run_layer<TestType>(RmsNorm{.features = 4, .epsilon = eps}, {1, 4}, zeros,
                                       {1, 1, 1, 1}, std::vector<TestType>{1, 0, 0, 0});
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(rms.y[i] == 0);
    CHECK(std::abs(double(rms.dx[i]) - (i == 0 ? scale : 0.0)) <= 1e-4 * scale);
  }
}

TEST_CASE("norm: N09 epsilon is read") {
  const std::vector<double> x{0.1, -0.1};
  const std::vector<double> dy{1, 0};
  // Variance 0.01: with epsilon 0.03 the deviation is 0.2, with 0.15 it is 0.4.
  for (const auto& [eps, want] : {std::pair{0.03, 0.5}, std::pair{0.15, 0.25}}) {
    CHECK(std::abs(run_layer<double>(LayerNorm{2, eps}, {1, 2}, x, {}, dy).y[0] - want) < 1e-14);
    CHECK(std::abs(run_layer<double>(RmsNorm{2, eps}, {1, 2}, x, {}, dy).y[0] - want) < 1e-14);
  }
  krama::ParamSpec spec;
  CHECK_THROWS_AS((LayerNorm{2, 0.0}.params(spec)), krama::Error);
  CHECK_THROWS_AS((RmsNorm{2, -1.0}.params(spec)), krama::Error);
}

TEST_CASE("norm: rows far from zero keep their variance") {
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(4096.0F + static_cast<float>(i % 2));
  const auto got =
      run_layer<float>(LayerNorm{.features = 64}, {1, 64}, x, {}, std::vector<float>(64, 0.0F));
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(std::abs(std::abs(got.y[i]) - 1.0F) < 1e-3F);
  }
}

TEST_CASE("norm: a misfit names both extents") {
  CHECK_THROWS_WITH((LayerNorm{.features = 8}.out({2, 7})),
                    "layer_norm: the last extent of the input must be 8, found (2, 7)");
  CHECK_THROWS_AS((RmsNorm{.features = 8}.out({2, 7})), krama::Error);
}
