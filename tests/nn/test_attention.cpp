// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/attention.hpp>
#include <krama/testing/check_layer.hpp>

#include <algorithm>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

namespace {

using krama::Shape;
using krama::nn::CausalSelfAttention;
using krama::nn::RopeStyle;
using krama::test::run_layer;
using krama::test::values;
using krama::test::worst;

std::int64_t row_of(const CausalSelfAttention& a) {
  return (a.heads + 2 * (a.kv_heads == 0 ? a.heads : a.kv_heads)) * a.head_features;
}

/// Plain formulas in double, one pair of positions after the other.
struct Reference {
  std::vector<double> y, dx;
};
Reference reference(const CausalSelfAttention& a, std::int64_t batch, std::int64_t time,
                    const std::vector<double>& x, const std::vector<double>& dy) {
  const std::int64_t kvs = a.kv_heads == 0 ? a.heads : a.kv_heads;
  const std::int64_t nf = a.head_features, in = row_of(a), out = a.heads * nf;
  const double scale = 1.0 / std::sqrt(static_cast<double>(nf));
  Reference ref{std::vector<double>(static_cast<std::size_t>(batch * time * out)),
                std::vector<double>(x.size())};
  const auto turn = [&](std::vector<double>& v, double sign) {
    for (std::int64_t row = 0; row < batch * time; ++row) {
      for (std::int64_t h = 0; h < a.heads + kvs; ++h) {
        double* p = v.data() + row * in + h * nf;
        for (std::int64_t i = 0; i < nf / 2 && a.rope != RopeStyle::none; ++i) {
          const double angle = static_cast<double>(row % time) *
                               std::pow(a.rope_theta, -2.0 * double(i) / double(nf)) * sign;
          const bool split = a.rope == RopeStyle::half_split;
          double& u = p[split ? i : 2 * i];
          double& w = p[split ? i + nf / 2 : 2 * i + 1];
          const double first = u * std::cos(angle) - w * std::sin(angle);
          w = w * std::cos(angle) + u * std::sin(angle);
          u = first;
        }
      }
    }
  };
  std::vector<double> t = x;
  turn(t, 1.0);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t kv = h / (a.heads / kvs);
      for (std::int64_t i = 0; i < time; ++i) {
        const auto at = [&](std::int64_t row, std::int64_t part) {
          return (b * time + row) * in + part * nf;
        };
        const auto q = at(i, h);
        const auto o = (b * time + i) * out + h * nf;
        const auto dot = [&](const double* u, const double* v) {
          double s = 0.0;
          for (std::int64_t f = 0; f < nf; ++f) s += u[f] * v[f];
          return s;
        };
        std::vector<double> p, dp;
        double top = -1e300, sum = 0.0, delta = 0.0;
        for (std::int64_t j = 0; j <= i; ++j) {
          p.push_back(scale * dot(&t[size_t(q)], &t[size_t(at(j, a.heads + kv))]));
          top = std::max(top, p.back());
          dp.push_back(dot(&dy[size_t(o)], &t[size_t(at(j, a.heads + kvs + kv))]));
        }
        for (auto& e : p) sum += e = std::exp(e - top);
        for (std::size_t j = 0; j < p.size(); ++j) delta += (p[j] /= sum) * dp[j];
        for (std::int64_t j = 0; j <= i; ++j) {
          const auto k = at(j, a.heads + kv), v = at(j, a.heads + kvs + kv);
          const double pj = p[size_t(j)];
          const double ds = pj * (dp[size_t(j)] - delta) * scale;
          for (std::int64_t f = 0; f < nf; ++f) {
            ref.y[size_t(o + f)] += pj * t[size_t(v + f)];
            ref.dx[size_t(v + f)] += pj * dy[size_t(o + f)];
            ref.dx[size_t(q + f)] += ds * t[size_t(k + f)];
            ref.dx[size_t(k + f)] += ds * t[size_t(q + f)];
          }
        }
      }
    }
  }
  turn(ref.dx, -1.0);
  return ref;
}

template <class T>
std::vector<double> widened(const std::vector<T>& v) {
  std::vector<double> w;
  for (const auto e : v) w.push_back(static_cast<double>(static_cast<krama::accum_t<T>>(e)));
  return w;
}

template <class T>
void compare(const CausalSelfAttention& layer, std::int64_t batch, std::int64_t time,
             double tolerance) {
  CAPTURE(batch, time, layer.heads, layer.kv_heads, layer.head_features,
          static_cast<int>(layer.rope));
  const auto x = values<T>(batch * time * row_of(layer), 1, -2.0, 2.0);
  const auto dy = values<T>(batch * time * layer.heads * layer.head_features, 2);
  const auto got = run_layer<T>(layer, {batch, time, row_of(layer)}, x, {}, dy);
  const auto want = reference(layer, batch, time, widened(x), widened(dy));
  CHECK(worst(got.y, want.y) <= tolerance);
  CHECK(worst(got.dx, want.dx) <= tolerance * (1.0 + std::sqrt(static_cast<double>(time))));
}

}  // namespace

TEMPLATE_TEST_CASE("attention: contract of a layer", "", double, float) {
  const CausalSelfAttention layers[] = {
      {.heads = 1, .head_features = 1},
      {.heads = 2, .head_features = 5},
      {.heads = 4, .head_features = 6, .kv_heads = 2, .rope = RopeStyle::half_split},
      {.heads = 2, .head_features = 4, .kv_heads = 1, .rope = RopeStyle::interleaved},
  };
  for (const auto& layer : layers) {
    for (const auto& [batch, time] : {std::pair{1, 1}, std::pair{3, 7}, std::pair{1, 70}}) {
      const Shape in{batch, time, row_of(layer)};
      const auto r = krama::testing::check_layer<TestDevice, TestType>(layer, in);
      INFO(krama::to_string(in) << "\n" << r.text());
      CHECK(r.ok());
    }
  }
}

TEMPLATE_TEST_CASE("attention: values and gradients follow the plain formulas", "", double, float,
                   krama::bf16, krama::f16) {
  const double tolerance = std::is_same_v<TestType, double>        ? 1e-13
                           : std::is_same_v<TestType, float>       ? 1e-6
                           : std::is_same_v<TestType, krama::bf16> ? 1e-2
                                                                   : 1e-3;
  for (const std::int64_t time : {1, 2, 31, 64, 65, 130}) {
    compare<TestType>({.heads = 2, .head_features = 32}, 2, time, tolerance);
    compare<TestType>({.heads = 3, .head_features = 7}, 1, time, tolerance);
    compare<TestType>(
        {.heads = 6, .head_features = 48, .kv_heads = 2, .rope = RopeStyle::half_split}, 1, time,
        tolerance);
    compare<TestType>({.heads = 2,
                       .head_features = 10,
                       .kv_heads = 1,
                       .rope = RopeStyle::interleaved,
                       .rope_theta = 500.0},
                      1, time, tolerance);
  }
}

TEST_CASE("attention: L01 the two forms of RoPE agree at position 0 and differ from position 1") {
  const std::int64_t time = 12, nf = 8;
  const CausalSelfAttention split{.heads = 1, .head_features = nf, .rope = RopeStyle::half_split};
  const CausalSelfAttention mixed{.heads = 1, .head_features = nf, .rope = RopeStyle::interleaved};
  const auto x = values<float>(time * 3 * nf, 4, -3.0, 3.0);
  const std::vector<float> dy(static_cast<std::size_t>(time * nf), 1.0F);
  const auto a = run_layer<float>(split, {1, time, 3 * nf}, x, {}, dy);
  const auto b = run_layer<float>(mixed, {1, time, 3 * nf}, x, {}, dy);
  const auto want_a = reference(split, 1, time, widened(x), widened(dy));
  const auto want_b = reference(mixed, 1, time, widened(x), widened(dy));
  for (std::size_t f = 0; f < 8; ++f) {
    CHECK(a.y[f] == b.y[f]);
    CHECK(std::abs(double(a.y[8 * 8 + f]) - want_a.y[8 * 8 + f]) < 1e-6);
    CHECK(std::abs(double(b.y[8 * 8 + f]) - want_b.y[8 * 8 + f]) < 1e-6);
  }
  double apart = 0.0;
  for (std::size_t f = 0; f < 8; ++f) {
    apart = std::max(apart, double(std::abs(a.y[8 * 8 + f] - b.y[8 * 8 + f])));
  }
  CHECK(apart > 1e-2);
}

TEST_CASE("attention: the angles of late positions keep their accuracy") {
  using D = TestDevice;
  const krama::exec_of<D> exec;
  const std::int64_t time = 5000, nf = 16;
  krama::Tensor<double, 1, krama::mem_of<D>> table(exec, "table", {time * nf});
  krama::kernels::rope_table(exec, table.data(), time, nf, 10000.0);
  const auto t = krama::download(exec, table.ref());
  double d = 0.0;
  for (std::int64_t i = 0; i < time; ++i) {
    for (std::int64_t p = 0; p < nf / 2; ++p) {
      const double angle = double(i) * std::pow(10000.0, -2.0 * double(p) / double(nf));
      d = std::max(d, std::abs(t[size_t(i * nf + p)] - std::cos(angle)));
      d = std::max(d, std::abs(t[size_t(i * nf + nf / 2 + p)] - std::sin(angle)));
    }
  }
  CHECK(d < 1e-12);
}

TEMPLATE_TEST_CASE("attention: N07 large scores neither overflow nor give NaN", "", double, float,
                   krama::bf16, krama::f16) {
  using T = TestType;
  // One feature, queries of 1: scores are the keys. The last row sees {1000, 1001, 999}.
  std::vector<T> x;
  for (const float key : {1000.0F, 1001.0F, 999.0F}) {
    for (const float e : {1.0F, key, key - 1000.0F}) x.push_back(static_cast<T>(e));
  }
  const std::vector<T> dy(3, static_cast<T>(1.0F));
  const auto got =
      run_layer<T>(CausalSelfAttention{.heads = 1, .head_features = 1}, {1, 3, 3}, x, {}, dy);
  const auto keys = widened(x);
  double sum = 0.0, want = 0.0;
  for (const std::size_t j : {1U, 4U, 7U}) {
    sum += std::exp(keys[j] - 1000.0);
    want += std::exp(keys[j] - 1000.0) * keys[j + 1];
  }
  if (std::is_same_v<T, float>) CHECK(std::abs(sum - (1.0 + 2.718281828 + 0.367879441)) < 1e-6);
  CHECK(std::abs(static_cast<double>(got.y[2]) - want / sum) < 5e-3);
  for (const auto v : got.dx) CHECK(std::isfinite(v));
}

TEST_CASE("attention: a later position changes nothing before it") {
  const CausalSelfAttention layer{.heads = 2, .head_features = 16};
  const std::int64_t time = 40, row = row_of(layer);
  auto x = values<float>(time * row, 6);
  const std::vector<float> dy(static_cast<std::size_t>(time * 32), 1.0F);
  const auto before = run_layer<float>(layer, {1, time, row}, x, {}, dy);
  for (std::int64_t i = 25 * row; i < time * row; ++i) x[size_t(i)] = 1e15F;
  const auto after = run_layer<float>(layer, {1, time, row}, x, {}, dy);
  const std::vector<float> a(before.y.begin(), before.y.begin() + 25 * 32);
  const std::vector<float> b(after.y.begin(), after.y.begin() + 25 * 32);
  CHECK(a == b);
  CHECK(before.y[25 * 32] != after.y[25 * 32]);
}

TEMPLATE_TEST_CASE("attention: the portable kernels agree with the ones chosen", "", double, float,
                   krama::bf16) {
  using D = TestDevice;
  using M = krama::mem_of<D>;
  using T = TestType;
  using A = krama::accum_t<T>;
  const krama::exec_of<D> exec;
  for (const auto& s : {krama::kernels::AttentionSizes{2, 70, 4, 2, 10, RopeStyle::half_split},
                        krama::kernels::AttentionSizes{1, 33, 2, 2, 32, RopeStyle::none}}) {
    const std::int64_t nx = s.batch * s.time * s.row_in(), ny = s.batch * s.time * s.row_out();
    const auto x = values<T>(nx, 1, -2.0, 2.0);
    const auto dy = values<T>(ny, 2);
    krama::Tensor<T, 1, M> tx(exec, "x", {nx}), tdx(exec, "dx", {nx}), ty(exec, "y", {ny}),
        tdy(exec, "dy", {ny});
    krama::Tensor<A, 1, M> lse(exec, "lse", {s.batch * s.heads * s.time});
    krama::Tensor<A, 1, M> table(exec, "table", {s.time * s.features});
    krama::Tensor<A, 1, M> work(exec, "work",
                                {std::max(krama::kernels::attention_work<krama::exec_of<D>, A>(s),
                                          krama::kernels::detail::attention_portable_work(s))});
    krama::upload(exec, tx.ref(), std::span<const T>(x));
    krama::upload(exec, tdy.ref(), std::span<const T>(dy));
    krama::kernels::AttentionArgs<T> g;
    g.s = s;
    g.qkv = tx.data();
    g.y = ty.data();
    g.lse = lse.data();
    g.dy = tdy.data();
    g.dqkv = tdx.data();
    g.table = table.data();
    g.work = work.data();
    krama::kernels::attention_table(exec, s, table.data(), 10000.0);
    krama::kernels::attention_forward(exec, g);
    krama::kernels::attention_backward(exec, g);
    const auto y = widened(krama::download(exec, ty.ref()));
    const auto dx = widened(krama::download(exec, tdx.ref()));
    krama::kernels::detail::attention_forward_portable(exec, g);
    krama::kernels::detail::attention_backward_portable(exec, g);
    const double eps = std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-5 : 4e-2;
    CHECK(worst(widened(krama::download(exec, ty.ref())), y) <= eps);
    CHECK(worst(widened(krama::download(exec, tdx.ref())), dx) <= eps);
  }
}

TEST_CASE("attention: misfits are refused with the sizes") {
  CHECK_THROWS_WITH((CausalSelfAttention{.heads = 2, .head_features = 4}.out({1, 3, 25})),
                    "causal_self_attention: the input must be (batch, time, 24), found (1, 3, 25)");
  CHECK_THROWS_WITH(
      (CausalSelfAttention{.heads = 3, .head_features = 4, .kv_heads = 2}.out({1, 3, 28})),
      "causal_self_attention: 3 heads of 4 features do not go with 2 key-value heads");
  CHECK_THROWS_AS(
      (CausalSelfAttention{.heads = 1, .head_features = 3, .rope = RopeStyle::half_split}.out(
          {1, 2, 9})),
      krama::Error);
}
