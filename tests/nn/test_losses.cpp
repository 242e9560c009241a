// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/losses/binary_cross_entropy.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/nn/losses/mean_squared_error.hpp>

#include <krama/core/random.hpp>
#include <krama/tensor/copy.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace krama;
using Catch::Approx;

namespace {

static_assert(nn::Loss<nn::CrossEntropy, TestDevice, float>);
static_assert(nn::Loss<nn::CrossEntropy, TestDevice, f16>);
static_assert(nn::Loss<nn::MeanSquaredError, TestDevice, double>);
static_assert(nn::Loss<nn::BinaryCrossEntropy, TestDevice, bf16>);

template <class T>
T value(double v) {
  return static_cast<T>(static_cast<accum_t<T>>(v));
}

struct Result {
  double loss = 0;
  double weight = 0;
  std::vector<double> gradient;  ///< empty: none was asked for
};

/// One call of a loss on values given on the host. Null weights: all 1.
template <class T, class L>
Result call(const L& loss, std::int64_t rows, std::int64_t columns, const std::vector<double>& y,
            const std::vector<nn::target_of<L, T>>& targets,
            const std::vector<double>& weights = {}, bool with_gradient = true,
            double before = 0.0) {
  using D = TestDevice;
  using M = mem_of<D>;
  using A = accum_t<T>;
  const exec_of<D> exec;
  Tensor<T, 2, M> ty(exec, "y", {rows, columns}), dy(exec, "dy", {rows, columns});
  Tensor<nn::target_of<L, T>, 1, M> tt(exec, "t", {static_cast<std::int64_t>(targets.size())});
  Tensor<A, 1, M> tw(exec, "w", {rows});
  Tensor<double, 1, M> sums(exec, "sums", {2}), scratch(exec, "s", {loss.scratch_elements(rows)});
  std::vector<T> hy;
  for (const double v : y) hy.push_back(value<T>(v));
  std::vector<A> hw;
  for (const double v : weights) hw.push_back(static_cast<A>(v));
  upload(exec, ty.ref(), std::span<const T>(hy));
  upload(exec, tt.ref(), std::span<const nn::target_of<L, T>>(targets));
  if (!hw.empty()) upload(exec, tw.ref(), std::span<const A>(hw));
  fill(exec, sums.ref(), before);
  fill(exec, scratch.ref(), std::nan(""));
  fill(exec, dy.ref(), value<T>(std::nan("")));
  Ref<T, 2, D> d = dy.ref();
  if (!with_gradient) d = Ref<T, 2, D>(nullptr, {rows, columns});
  Ref<const A, 1, D> w = tw.cref();
  if (hw.empty()) w = Ref<const A, 1, D>(nullptr, {rows});
  loss.template operator()<D, T>(exec, ty.cref(), tt.cref(), w, sums.ref(), scratch.ref(), d);
  const auto s = download(exec, sums.ref());
  Result r{s[0], s[1], {}};
  if (with_gradient) {
    for (const T v : download(exec, dy.ref())) {
      r.gradient.push_back(static_cast<double>(static_cast<A>(v)));
    }
  }
  return r;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    worst = d <= worst ? worst : d;  // NaN is the largest
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

std::vector<double> some_values(std::int64_t n, double scale, std::uint32_t stream) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) {
    v.push_back(
        scale *
        (2.0 * static_cast<double>(uniform({5, stream, 0}, static_cast<std::uint64_t>(i))) - 1.0));
  }
  return v;
}

}  // namespace

TEMPLATE_TEST_CASE("cross_entropy: values and gradient match the formula", "[nn]", double, float) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 17}, {7, 10}, {33, 16}, {100, 65}}) {
    const auto x = some_values(rows * columns, 4.0, 1);
    std::vector<std::int32_t> label;
    std::vector<double> w;
    for (std::int64_t r = 0; r < rows; ++r) {
      label.push_back(r % 5 == 3 ? -100 : static_cast<std::int32_t>(r * 7 % columns));
      w.push_back(r % 7 == 6 ? 0.0 : 0.5 + static_cast<double>(r % 3));
    }
    double loss = 0, weight = 0;
    std::vector<double> gradient(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      if (label[static_cast<std::size_t>(r)] == -100) continue;
      const double wr = w[static_cast<std::size_t>(r)];
      double sum = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        sum += std::exp(x[static_cast<std::size_t>(r * columns + c)]);
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<std::size_t>(r * columns + c);
        const bool hit = c == label[static_cast<std::size_t>(r)];
        gradient[i] = wr * (std::exp(x[i]) / sum - (hit ? 1.0 : 0.0));
        if (hit) loss += wr * (std::log(sum) - x[i]);
      }
      weight += wr;
    }
    const auto r = call<TestType>(nn::CrossEntropy{}, rows, columns, x, label, w);
    const double tol = std::is_same_v<TestType, double> ? 1e-13 : 2e-6;
    CHECK(r.loss == Approx(loss).epsilon(tol).margin(tol));
    CHECK(r.weight == Approx(weight));
    CHECK(largest_difference(gradient, r.gradient) <= tol * 3);
    const auto evaluated = call<TestType>(nn::CrossEntropy{}, rows, columns, x, label, w, false);
    CHECK(evaluated.loss == r.loss);
    CHECK(evaluated.weight == r.weight);
  }
}

TEMPLATE_TEST_CASE("cross_entropy: large logits do not overflow (N07)", "[nn]", double, float, f16,
                   bf16) {
  // bf16 has 8 bits: 1000 and 1001 are the same there, so the case is shifted down for it.
  const double base = std::is_same_v<TestType, bf16> ? 100.0 : 1000.0;
  const auto r = call<TestType>(nn::CrossEntropy{}, 1, 3, {base, base + 1, base - 1}, {2});
  const double tol = std::is_same_v<TestType, double>  ? 1e-7
                     : std::is_same_v<TestType, float> ? 1e-6
                                                       : 4e-3;
  CHECK(r.loss == Approx(2.4076060).margin(1e-6));
  CHECK(r.gradient[0] == Approx(0.2447285).margin(tol));
  CHECK(r.gradient[1] == Approx(0.6652410).margin(tol));
  CHECK(r.gradient[2] == Approx(0.0900306 - 1.0).margin(tol));
}

TEST_CASE("cross_entropy: classes that cannot be have logit -inf (N07)", "[nn]") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto r = call<float>(nn::CrossEntropy{}, 1, 3, {-inf, 0.0, 0.0}, {1});
  CHECK(r.loss == Approx(std::log(2.0)));
  CHECK(r.gradient[0] == 0.0);
  CHECK(r.gradient[1] == Approx(-0.5));
}

TEST_CASE("cross_entropy: nothing but ignored rows counts as nothing (N05)", "[nn]") {
  const auto r = call<float>(nn::CrossEntropy{}, 10, 4, some_values(40, 3.0, 2),
                             std::vector<std::int32_t>(10, -100));
  CHECK(r.loss == 0.0);
  CHECK(r.weight == 0.0);
  for (const double g : r.gradient) CHECK(g == 0.0);
}

TEST_CASE("cross_entropy: adds sums, not means (N01, N02)", "[nn]") {
  const auto x = some_values(6 * 5, 2.0, 3);
  const std::vector<std::int32_t> label{0, 1, -100, 3, 4, 0};
  const auto all = call<double>(nn::CrossEntropy{}, 6, 5, x, label);
  const auto a = call<double>(nn::CrossEntropy{}, 4, 5, {x.begin(), x.begin() + 20},
                              {label.begin(), label.begin() + 4});
  const auto b = call<double>(nn::CrossEntropy{}, 2, 5, {x.begin() + 20, x.end()},
                              {label.begin() + 4, label.end()});
  CHECK(all.weight == 5.0);
  CHECK(a.weight + b.weight == all.weight);
  CHECK(a.loss + b.loss == Approx(all.loss).epsilon(1e-14));
  for (std::size_t i = 0; i < 30; ++i) {
    CHECK(all.gradient[i] == (i < 20 ? a.gradient[i] : b.gradient[i - 20]));
  }
  const auto added = call<double>(nn::CrossEntropy{}, 6, 5, x, label, {}, true, 100.0);
  CHECK(added.loss == Approx(100.0 + all.loss));
  CHECK(added.weight == 105.0);
}

TEST_CASE("cross_entropy: another ignored label", "[nn]") {
  const auto r =
      call<float>(nn::CrossEntropy{.ignore_index = 0}, 2, 3, some_values(6, 1.0, 4), {0, 1});
  CHECK(r.weight == 1.0);
  CHECK(r.gradient[0] == 0.0);
}

#ifndef KRAMA_CHECKS
TEST_CASE("cross_entropy: a label out of range gives NaN and reads nothing (D07)", "[nn]") {
  for (const std::int32_t bad : {10, 255, -1}) {
    const auto r = call<float>(nn::CrossEntropy{}, 2, 10, some_values(20, 1.0, 5), {3, bad});
    CHECK(std::isnan(r.loss));
    CHECK(std::isnan(r.gradient[10]));
    CHECK(std::isfinite(r.gradient[0]));
  }
}
#endif

TEST_CASE("cross_entropy: wrong sizes are refused with both sizes", "[nn]") {
  CHECK_THROWS_WITH(call<float>(nn::CrossEntropy{}, 2, 3, some_values(6, 1.0, 6), {0}),
                    Catch::Matchers::ContainsSubstring("1 labels for logits (2, 3)"));
}

TEMPLATE_TEST_CASE("mean_squared_error: values and gradient match the formula", "[nn]", double,
                   float) {
  using A = accum_t<TestType>;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 3}, {40, 21}}) {
    const auto y = some_values(rows * columns, 2.0, 7);
    const auto t = some_values(rows * columns, 2.0, 8);
    std::vector<double> w;
    for (std::int64_t r = 0; r < rows; ++r) w.push_back(static_cast<double>(r % 3));
    double loss = 0, weight = 0;
    std::vector<double> gradient;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double wr = w[i / static_cast<std::size_t>(columns)];
      const double e = y[i] - static_cast<double>(static_cast<A>(t[i]));
      loss += wr * e * e / static_cast<double>(columns);
      gradient.push_back(2.0 * wr * e / static_cast<double>(columns));
      if (i % static_cast<std::size_t>(columns) == 0) weight += wr;
    }
    const auto r = call<TestType>(nn::MeanSquaredError{}, rows, columns, y,
                                  std::vector<TestType>(t.begin(), t.end()), w);
    const double tol = std::is_same_v<TestType, double> ? 1e-13 : 2e-6;
    CHECK(r.loss == Approx(loss).epsilon(tol).margin(tol));
    CHECK(r.weight == weight);
    CHECK(largest_difference(gradient, r.gradient) <= tol * 4);
  }
}

TEST_CASE("mean_squared_error: a row of weight 0 takes no part, whatever it holds", "[nn]") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto r = call<double>(nn::MeanSquaredError{}, 2, 1, {1.0, inf}, {0.0, 0.0}, {1.0, 0.0});
  CHECK(r.loss == 1.0);
  CHECK(r.weight == 1.0);
  CHECK(r.gradient[1] == 0.0);
}

TEMPLATE_TEST_CASE("cross_entropy: smoothed labels match the formula", "[nn]", double, float) {
  for (const double smoothing : {0.1, 0.5}) {
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 3}, {40, 21}}) {
      const auto x = some_values(rows * columns, 3.0, 21);
      std::vector<std::int32_t> label;
      std::vector<double> w;
      for (std::int64_t r = 0; r < rows; ++r) {
        label.push_back(r % 5 == 3 ? -100 : static_cast<std::int32_t>(r * 7 % columns));
        w.push_back(0.5 + static_cast<double>(r % 3));
      }
      double loss = 0, weight = 0;
      std::vector<double> gradient(x.size());
      for (std::size_t r = 0; r < label.size(); ++r) {
        if (label[r] == -100) continue;
        const auto n = static_cast<std::size_t>(columns);
        double sum = 0;
        for (std::size_t c = 0; c < n; ++c) sum += std::exp(x[r * n + c]);
        for (std::size_t c = 0; c < n; ++c) {
          const bool hit = static_cast<std::size_t>(label[r]) == c;
          const double t = (hit ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(n);
          loss += w[r] * t * (std::log(sum) - x[r * n + c]);
          gradient[r * n + c] = w[r] * (std::exp(x[r * n + c]) / sum - t);
        }
        weight += w[r];
      }
      const auto r = call<TestType>(nn::CrossEntropy{.label_smoothing = smoothing}, rows, columns,
                                    x, label, w);
      const double tol = std::is_same_v<TestType, double> ? 1e-13 : 2e-6;
      CHECK(r.loss == Approx(loss).epsilon(tol).margin(tol));
      CHECK(r.weight == Approx(weight));
      CHECK(largest_difference(gradient, r.gradient) <= tol * 3);
    }
  }
  CHECK_THROWS_WITH(
      call<TestType>(nn::CrossEntropy{.label_smoothing = 1.0}, 1, 2, {0.0, 0.0}, {0}),
      Catch::Matchers::ContainsSubstring("label_smoothing must be in [0, 1), found 1"));
}

TEMPLATE_TEST_CASE("binary_cross_entropy: values and gradient match the formula", "[nn]", double,
                   float) {
  using A = accum_t<TestType>;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 3}, {40, 21}}) {
    const auto x = some_values(rows * columns, 4.0, 31);
    auto t = some_values(rows * columns, 0.5, 32);
    for (std::size_t i = 0; i < t.size(); ++i) {
      t[i] = i % 3 == 0 ? 1.0 : i % 3 == 1 ? 0.0 : static_cast<double>(static_cast<A>(t[i] + 0.5));
    }
    std::vector<double> w;
    for (std::int64_t r = 0; r < rows; ++r) w.push_back(static_cast<double>(r % 3 + (rows == 1)));
    double loss = 0, weight = 0;
    std::vector<double> gradient;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double wr = w[i / static_cast<std::size_t>(columns)] / static_cast<double>(columns);
      const double p = 1.0 / (1.0 + std::exp(-x[i]));
      loss -= wr * (t[i] * std::log(p) + (1.0 - t[i]) * std::log(1.0 - p));
      gradient.push_back(wr * (p - t[i]));
      weight += wr;
    }
    const auto r = call<TestType>(nn::BinaryCrossEntropy{}, rows, columns, x,
                                  std::vector<TestType>(t.begin(), t.end()), w);
    const double tol = std::is_same_v<TestType, double> ? 1e-13 : 2e-6;
    CHECK(r.loss == Approx(loss).epsilon(tol).margin(tol));
    CHECK(r.weight == Approx(weight));
    CHECK(largest_difference(gradient, r.gradient) <= tol * 4);
  }
}

TEMPLATE_TEST_CASE("binary_cross_entropy: N07 large logits stay finite and keep their loss", "[nn]",
                   double, float, f16, bf16) {
  const auto r = call<TestType>(
      nn::BinaryCrossEntropy{}, 4, 1, {1000, -1000, 1000, -1000},
      {value<TestType>(1), value<TestType>(0), value<TestType>(0), value<TestType>(1)});
  CHECK(r.loss == 2000.0);
  CHECK(r.gradient == std::vector<double>{0.0, 0.0, 1.0, -1.0});
  const double inf = std::numeric_limits<double>::infinity();
  const auto left_out = call<TestType>(nn::BinaryCrossEntropy{}, 2, 1, {0.0, inf},
                                       {value<TestType>(1), value<TestType>(1)}, {1.0, 0.0});
  CHECK(left_out.loss == Approx(std::log(2.0)).epsilon(1e-6));
  CHECK(left_out.gradient[1] == 0.0);
}
