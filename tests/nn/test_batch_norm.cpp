// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/testing/check_layer.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

namespace {

using krama::Shape;
using krama::nn::BatchNorm;
using krama::test::values;
using krama::test::worst;
using D = TestDevice;

/// A layer of one rank with everything about it, and what one forward and backward gave.
template <class T>
struct Run {
  using A = krama::accum_t<T>;
  std::vector<A> y, dx, dgamma, dbeta, next_mean, next_var;

  /// `params`: gamma, beta, running mean, running variance, one after the other; empty: as made.
  Run(const BatchNorm& layer, const Shape& in, const std::vector<T>& x,
      const std::vector<A>& params, const std::vector<T>& dy, krama::nn::CallInfo call = {}) {
    using M = krama::mem_of<D>;
    const krama::exec_of<D> exec;
    krama::testing::LayerHarness<D, T, BatchNorm> h(exec, layer, in, false, 1);
    auto w = krama::download(exec, h.store().values());
    std::size_t from = 0;
    for (const auto& s : h.store().segments()) {
      for (std::int64_t i = 0; i < s.size && !params.empty(); ++i) {
        w[static_cast<std::size_t>(s.offset + i)] = params.at(from++);
      }
    }
    krama::upload(exec, h.store().values(), std::span<const A>(w));
    h.store().refresh_working(exec);
    h.store().clear_grads(exec);
    h.poison_stash();
    h.poison_scratch();
    h.call() = call;
    const krama::Tensor<T, 1, M> tx(exec, "x", {in.size()}), tdx(exec, "dx", {in.size()});
    const krama::Tensor<T, 1, M> ty(exec, "y", {in.size()}), tdy(exec, "dy", {in.size()});
    krama::upload(exec, tx.ref(), std::span<const T>(x));
    krama::upload(exec, tdy.ref(), std::span<const T>(dy));
    const auto any = [&](const auto& t) {
      return krama::AnyRef<M>{t.data(), krama::dtype_of<T>, in};
    };
    h.forward(any(tx), any(ty), call.training);
    h.poison_scratch();
    h.backward(any(tx), any(ty), any(tdy), any(tdx), call.training);
    for (const auto v : krama::download(exec, ty.ref())) y.push_back(static_cast<A>(v));
    for (const auto v : krama::download(exec, tdx.ref())) dx.push_back(static_cast<A>(v));
    const auto g = krama::download(exec, h.store().grads());
    std::vector<A>* to[] = {&dgamma, &dbeta, &next_mean, &next_var};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& s = h.store().segments()[i];
      to[i]->assign(g.begin() + s.offset, g.begin() + s.offset + s.size);
    }
  }
};

constexpr krama::nn::CallInfo training{.training = true, .commits = true};

/// The other rank of two: gives what it was told to, in turn.
class OtherRank final : public krama::Collective {
 public:
  explicit OtherRank(std::vector<std::vector<double>> told) : told_(std::move(told)) {}
  [[nodiscard]] int size() const override { return 2; }
  std::vector<double> gather(std::span<const double> mine, std::string_view what) override {
    names.emplace_back(what);
    std::vector<double> all(mine.begin(), mine.end());
    const auto& other = told_.at(names.size() - 1);
    KRAMA_EXPECTS(other.size() == mine.size(), "{} numbers, not {}", mine.size(), other.size());
    all.insert(all.end(), other.begin(), other.end());
    return all;
  }
  std::vector<std::string> names;

 private:
  std::vector<std::vector<double>> told_;
};

}  // namespace

TEMPLATE_TEST_CASE("batch_norm: contract of a layer", "", double, float) {
  for (const auto& shape : {Shape{4, 3}, Shape{2, 3, 4, 5}, Shape{3, 50, 2}, Shape{2, 1}}) {
    for (const bool trains : {true, false}) {
      const BatchNorm layer{.channels = shape[-1]};
      const auto r = krama::testing::check_layer<D, TestType>(layer, shape, {.training = trains});
      INFO(krama::to_string(shape) << (trains ? " training" : " evaluation") << r.text());
      CHECK(r.ok());
    }
  }
}

TEMPLATE_TEST_CASE("batch_norm: values, gradients and statistics follow the plain formulas", "",
                   double, float, krama::bf16, krama::f16) {
  using T = TestType;
  using A = krama::accum_t<T>;
  const double tolerance = std::is_same_v<T, double>        ? 1e-11
                           : std::is_same_v<T, float>       ? 1e-5
                           : std::is_same_v<T, krama::bf16> ? 3e-2
                                                            : 4e-3;
  for (const std::int64_t rows : {9, 127, 128, 129, 500}) {
    for (const std::int64_t channels : {1, 63, 64, 65}) {
      CAPTURE(rows, channels);
      const auto c_count = static_cast<std::size_t>(channels);
      const auto x = values<T>(rows * channels, 1, -1.0, 3.0);
      const auto dy = values<T>(rows * channels, 2);
      auto params = values<A>(4 * channels, 3, 0.5, 1.5);
      for (auto& p : params) p = static_cast<A>(static_cast<T>(p));
      const BatchNorm layer{.channels = channels, .momentum = 0.25};
      const auto of = [](T v) { return static_cast<double>(static_cast<A>(v)); };
      std::vector<double> y(x.size()), dx(x.size()), dgamma(c_count), dbeta(c_count), mean(c_count),
          var(c_count);
      for (std::size_t c = 0; c < c_count; ++c) {
        const double n = static_cast<double>(rows);
        double m = 0, m2 = 0;
        for (std::size_t i = c; i < x.size(); i += c_count) m += of(x[i]) / n;
        for (std::size_t i = c; i < x.size(); i += c_count) m2 += (of(x[i]) - m) * (of(x[i]) - m);
        const double s = 1.0 / std::sqrt(m2 / n + layer.epsilon);
        for (std::size_t i = c; i < x.size(); i += c_count) {
          const double xhat = (of(x[i]) - m) * s;
          y[i] = xhat * params[c] + params[c_count + c];
          dgamma[c] += of(dy[i]) * xhat;
          dbeta[c] += of(dy[i]);
        }
        for (std::size_t i = c; i < x.size(); i += c_count) {
          const double xhat = (of(x[i]) - m) * s;
          dx[i] = s * params[c] * (of(dy[i]) - dbeta[c] / n - xhat * dgamma[c] / n);
        }
        mean[c] = 0.75 * params[2 * c_count + c] + 0.25 * m;
        var[c] = 0.75 * params[3 * c_count + c] + 0.25 * m2 / (n - 1);
      }
      const Run<T> got(layer, {rows, channels}, x, params, dy, training);
      CHECK(worst(got.y, y) <= tolerance);
      CHECK(worst(got.dx, dx) <= tolerance * 4);
      CHECK(worst(got.dgamma, dgamma) <= tolerance * std::sqrt(static_cast<double>(rows)));
      CHECK(worst(got.dbeta, dbeta) <= tolerance * std::sqrt(static_cast<double>(rows)));
      CHECK(worst(got.next_mean, mean) <= 1e-6);
      CHECK(worst(got.next_var, var) <= 1e-6);

      // Evaluation: y from the running statistics, which nothing changes.
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t c = i % c_count;
        const double s = params[c] / std::sqrt(params[3 * c_count + c] + layer.epsilon);
        y[i] = (of(x[i]) - params[2 * c_count + c]) * s + params[c_count + c];
        dx[i] = s * of(dy[i]);
      }
      const Run<T> fixed(layer, {rows, channels}, x, params, dy, {.training = false});
      CHECK(worst(fixed.y, y) <= tolerance * 2);
      CHECK(worst(fixed.dx, dx) <= tolerance);
      for (std::size_t c = 0; c < c_count; ++c) {
        CHECK(fixed.next_mean[c] == params[2 * c_count + c]);
        CHECK(fixed.next_var[c] == params[3 * c_count + c]);
      }
    }
  }
}

TEMPLATE_TEST_CASE("batch_norm: N11 means far from zero keep their variance", "", float,
                   krama::bf16, krama::f16) {
  std::vector<TestType> x;
  for (int i = 0; i < 1000; ++i) {
    const float far = std::is_same_v<TestType, float> ? 8192.0F : 5.0F;
    const float step = std::is_same_v<TestType, float> ? 1.0F : 0.0625F;
    const float away = static_cast<float>(i / 2 % 2 == 0 ? 1 : -1) * step;
    x.push_back(static_cast<TestType>((i % 2 == 0 ? far : -far) + away));
  }
  const std::vector<TestType> dy(x.size(), static_cast<TestType>(0.0F));
  const Run<TestType> got(BatchNorm{.channels = 2}, {500, 2}, x, {}, dy, training);
  for (const auto y : got.y) CHECK(std::abs(std::abs(y) - 1.0F) < 4e-3F);
}

TEST_CASE("batch_norm: N12 statistics of two ranks use their true counts") {
  // Rank 0 has {0, 0, 0}, rank 1 has {4}: mean 1, biased variance 3, unbiased 4.
  const double s = 1.0 / std::sqrt(3.0 + 1e-5);
  const std::vector<double> dy{1, 2, -1};
  const double far = 0.5;  // dy of rank 1
  const double sum = 2.0 + far;
  const double sum_x = (1 + 2 - 1) * -s + far * 3 * s;
  OtherRank other({{4.0, 0.0, 1.0}, {far, far * 3 * s, 1.0}});
  krama::nn::CallInfo call = training;
  call.group = &other;
  const BatchNorm layer{.channels = 1, .momentum = 1.0};
  const Run<double> got(layer, {3, 1}, {0, 0, 0}, {}, dy, call);
  CHECK(worst(got.y, {-s, -s, -s}) < 1e-15);
  CHECK(got.next_mean[0] == 1.0);
  CHECK(got.next_var[0] == 4.0);
  CHECK(got.dbeta[0] == 2.0);  // of this rank alone
  std::vector<double> dx;
  for (const double d : dy) dx.push_back(s * (d - sum / 4 - -s * sum_x / 4));
  CHECK(worst(got.dx, dx) < 1e-14);
  CHECK(other.names.size() == 2);
}

TEST_CASE("batch_norm: N12 a rank without samples takes part") {
  OtherRank other({{4.0, 0.0, 1.0, 2.0, 6.0, 2.0}});
  CHECK_THROWS(other.gather(std::vector<double>(2), "wrong length"));
  OtherRank full({{1.0, 2.0, 12.0, 0.0, 4.0}, {1.0, 2.0, 3.0, 4.0, 4.0}});
  krama::nn::CallInfo call = training;
  call.group = &full;
  const Run<float> got(BatchNorm{.channels = 2, .momentum = 1.0}, {0, 7, 2}, {}, {}, {}, call);
  CHECK(full.names.size() == 2);
  CHECK(got.y.empty());
  CHECK(got.next_mean == std::vector<float>{1.0F, 2.0F});
  CHECK(got.next_var == std::vector<float>{4.0F, 0.0F});
  CHECK(got.dgamma == std::vector<float>{0.0F, 0.0F});

  // Not synchronised, nobody is asked, and an empty batch leaves the statistics alone.
  OtherRank none({});
  call.group = &none;
  const Run<float> alone(BatchNorm{.channels = 2, .synchronised = false}, {0, 2}, {}, {}, {}, call);
  CHECK(none.names.empty());
  CHECK(alone.next_var == std::vector<float>{1.0F, 1.0F});
}

TEST_CASE("batch_norm: what is refused") {
  using Catch::Matchers::ContainsSubstring;
  krama::ParamSpec spec;
  CHECK_THROWS_AS((BatchNorm{.channels = 0}.params(spec)), krama::Error);
  CHECK_THROWS_AS((BatchNorm{.channels = 2, .epsilon = 0}.params(spec)), krama::Error);
  CHECK_THROWS_AS((BatchNorm{.channels = 2, .momentum = 1.5}.params(spec)), krama::Error);
  CHECK_THROWS_WITH((BatchNorm{.channels = 4}.out({2, 3, 5})),
                    "batch_norm: the input must be (samples, …, channels) with 4 channels, found "
                    "(2, 3, 5)");
  CHECK_THROWS_WITH(Run<float>(BatchNorm{.channels = 2}, {1, 2}, {1, 2}, {}, {0, 0}, training),
                    ContainsSubstring("a channel with 1 values in the whole micro-batch"));
}
