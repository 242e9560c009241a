// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/gelu.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/layers/silu.hpp>
#include <krama/nn/layers/swiglu.hpp>

#include <krama/testing/check_layer.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace krama;
using Catch::Approx;
using testing::check_layer;

namespace {

/// Output of a layer for the row `x`.
template <class T, class L>
std::vector<double> forward(const L& layer, const std::vector<double>& x) {
  using M = mem_of<TestDevice>;
  using A = accum_t<T>;
  const exec_of<TestDevice> exec;
  const Shape in{1, static_cast<std::int64_t>(x.size())};
  testing::LayerHarness<TestDevice, T, L> h(exec, layer, in, false, 1);
  Tensor<T, 1, M> tx(exec, "x", {in.size()}), ty(exec, "y", {h.out().size()});
  std::vector<T> values;
  for (const double v : x) values.push_back(static_cast<T>(static_cast<A>(v)));
  upload(exec, tx.ref(), std::span<const T>(values));
  h.forward({tx.data(), dtype_of<T>, in}, {ty.data(), dtype_of<T>, h.out()});
  std::vector<double> y;
  for (const T v : download(exec, ty.ref())) y.push_back(static_cast<double>(static_cast<A>(v)));
  return y;
}

template <class T>
constexpr double tolerance() {
  if constexpr (std::is_same_v<T, double>) return 1e-15;
  if constexpr (std::is_same_v<T, float>) return 1e-6;
  return 1e-2;
}

std::vector<double> grid() {
  std::vector<double> x;
  // Sixteenths are exact in every type, bf16 included.
  for (double v = -6.0; v <= 6.0; v += 0.0625) x.push_back(v);
  return x;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

template <class T, class L>
void check(const L& layer, const Shape& in, testing::CheckOptions options = {}) {
  const auto report = check_layer<TestDevice, T>(layer, in, options);
  INFO("input " << to_string(in));
  CHECK(report.text() == "");
}

}  // namespace

TEMPLATE_TEST_CASE("gelu: gradients and contract", "[nn]", double, float) {
  const auto form = GENERATE(nn::GeluForm::erf, nn::GeluForm::tanh);
  for (const auto& in : {Shape{1, 1}, Shape{3, 5}, Shape{2, 7, 13}, Shape{130, 37}}) {
    check<TestType>(nn::Gelu{form}, in, {.low = -3.0, .high = 3.0});
  }
}
TEMPLATE_TEST_CASE("silu: gradients and contract", "[nn]", double, float) {
  for (const auto& in : {Shape{1, 1}, Shape{3, 5}, Shape{2, 7, 13}, Shape{130, 37}}) {
    check<TestType>(nn::Silu{}, in, {.low = -4.0, .high = 4.0});
  }
}
TEMPLATE_TEST_CASE("swiglu: gradients and contract", "[nn]", double, float) {
  for (const auto& in :
       {Shape{1, 2}, Shape{3, 10}, Shape{2, 7, 26}, Shape{130, 34}, Shape{1, 5000}}) {
    check<TestType>(nn::SwiGlu{}, in, {.low = -2.0, .high = 2.0});
  }
}
TEMPLATE_TEST_CASE("relu: gradients and contract", "[nn]", double, float) {
  // Away from the kink, where finite differences mean nothing.
  check<TestType>(nn::Relu{}, {3, 50}, {.low = 0.1, .high = 1.0});
  check<TestType>(nn::Relu{}, {130, 37}, {.low = -1.0, .high = -0.1});
}

TEMPLATE_TEST_CASE("gelu, silu, relu: values match the formula", "[nn]", double, float, bf16, f16) {
  const auto x = grid();
  const auto erf_form = forward<TestType>(nn::Gelu{}, x);
  const auto tanh_form = forward<TestType>(nn::Gelu{nn::GeluForm::tanh}, x);
  const auto s = forward<TestType>(nn::Silu{}, x);
  const auto r = forward<TestType>(nn::Relu{}, x);
  const double tol = tolerance<TestType>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double u = std::sqrt(2.0 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
    CHECK(erf_form[i] ==
          Approx(0.5 * v * (1.0 + std::erf(v / std::sqrt(2.0)))).epsilon(tol).margin(tol));
    CHECK(tanh_form[i] == Approx(0.5 * v * (1.0 + std::tanh(u))).epsilon(tol).margin(tol));
    CHECK(s[i] == Approx(silu(v)).epsilon(tol).margin(tol));
    CHECK(r[i] == std::max(v, 0.0));
  }
}

TEST_CASE("gelu, silu, relu: extreme inputs", "[nn]") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& y : {forward<float>(nn::Gelu{}, {1e30, -1e30, std::nan("")}),
                        forward<float>(nn::Gelu{nn::GeluForm::tanh}, {1e30, -1e30, std::nan("")}),
                        forward<float>(nn::Silu{}, {1e30, -1e30, std::nan("")}),
                        forward<float>(nn::Relu{}, {1e30, -1e30, std::nan("")})}) {
    CHECK(y[0] == Approx(1e30));
    CHECK(y[1] == 0.0);
    CHECK(std::isnan(y[2]));
  }
  CHECK(forward<float>(nn::Relu{}, {inf})[0] == inf);
}

TEST_CASE("swiglu: the gate is the first half", "[nn]") {
  const auto y = forward<double>(nn::SwiGlu{}, {1.0, -2.0, 3.0, 5.0});
  REQUIRE(y.size() == 2);
  CHECK(y[0] == Approx(silu(1.0) * 3.0));
  CHECK(y[1] == Approx(silu(-2.0) * 5.0));
}

TEST_CASE("swiglu: an odd extent is refused", "[nn]") {
  CHECK_THROWS_WITH(nn::SwiGlu{}.out({4, 7}), Catch::Matchers::ContainsSubstring(
                                                  "must be even (gate and value), found (4, 7)"));
}
