// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/optim/adam.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/optim/sgd.hpp>

#include <krama/core/random.hpp>
#include <krama/tensor/copy.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <vector>

using namespace krama;
using namespace krama::optim;
using Catch::Approx;

namespace {

/// Parameters with gradients and states on the test device.
template <class A>
struct Problem {
  using D = TestDevice;
  using M = mem_of<D>;
  exec_of<D> exec;
  std::int64_t n;
  Tensor<A, 1, M> w, g, m, v;
  Tensor<std::uint8_t, 1, M> attributes;

  explicit Problem(std::int64_t size, std::uint8_t attribute = chunk_decays)
      : n(size),
        w(exec, "w", {n}),
        g(exec, "g", {n}),
        m(exec, "m", {n}),
        v(exec, "v", {n}),
        attributes(exec, "a", {(n + chunk_size - 1) / chunk_size}) {
    std::vector<A> hw;
    for (std::int64_t i = 0; i < n; ++i) hw.push_back(number(1, i));
    upload(exec, w.ref(), std::span<const A>(hw));
    fill(exec, m.ref(), A{0});
    fill(exec, v.ref(), A{0});
    fill(exec, attributes.ref(), attribute);
    new_gradients(0);
  }
  static A number(std::uint32_t stream, std::int64_t i) {
    return static_cast<A>(2.0F * uniform({9, stream, 0}, static_cast<std::uint64_t>(i)) - 1.0F);
  }
  void new_gradients(int step) {
    std::vector<A> hg;
    for (std::int64_t i = 0; i < n; ++i) {
      hg.push_back(number(100 + static_cast<std::uint32_t>(step), i));
    }
    upload(exec, g.ref(), std::span<const A>(hg));
  }
  template <class O>
  void update(const O& o, const UpdateScalars& s, std::int64_t begin, std::int64_t end) {
    const auto part = [&](const Tensor<A, 1, M>& t) {
      return TensorRef<A, 1, M>(t.data() + begin, {end - begin});
    };
    UpdateRange<A, M> r;
    r.values = part(w);
    r.grads = part(g);
    r.states = {part(m), part(v)};
    r.attributes = {attributes.data() + begin / chunk_size,
                    {(end - begin + chunk_size - 1) / chunk_size}};
    o.template update<D, A>(exec, r, s);
  }
  template <class O>
  void update(const O& o, const UpdateScalars& s) {
    update(o, s, 0, n);
  }
  [[nodiscard]] std::vector<A> values() const { return download(exec, w.cref()); }
};

/// One parameter with value p and gradient g, after one update.
template <class O>
double one(const O& o, double p, double g, double lr, std::uint8_t attribute = chunk_decays) {
  Problem<double> problem(1, attribute);
  fill(problem.exec, problem.w.ref(), p);
  fill(problem.exec, problem.g.ref(), g);
  problem.update(o, {lr, 1.0, 1});
  return problem.values()[0];
}

}  // namespace

TEST_CASE("adamw: decay is decoupled (N14)", "[optim]") {
  // p = 1, g = 0: AdamW shrinks by lr * decay; in Adam the decay passes the normalisation: a whole
  // lr.
  CHECK(one(AdamW{.weight_decay = 0.1}, 1.0, 0.0, 0.01) == Approx(0.999).epsilon(1e-15));
  CHECK(one(Adam{.weight_decay = 0.1}, 1.0, 0.0, 0.01) == Approx(0.99).epsilon(1e-6));
  CHECK(one(Sgd{.l2 = 0.1}, 1.0, 0.0, 0.01) == Approx(0.999).epsilon(1e-15));
  CHECK(one(Sgd{.decoupled_decay = 0.1}, 1.0, 0.0, 0.01) == Approx(0.999).epsilon(1e-15));
}

TEST_CASE("optimizers: chunks that do not decay are not shrunk (N14)", "[optim]") {
  CHECK(one(AdamW{.weight_decay = 0.1}, 1.0, 0.0, 0.01, 0) == 1.0);
  CHECK(one(Adam{.weight_decay = 0.1}, 1.0, 0.0, 0.01, 0) == 1.0);
  CHECK(one(Sgd{.l2 = 0.1}, 1.0, 0.0, 0.01, 0) == 1.0);
  CHECK(one(Sgd{.decoupled_decay = 0.1}, 1.0, 0.0, 0.01, 0) == 1.0);
}

TEST_CASE("adam: the first step is corrected for bias", "[optim]") {
  // m^ = g and v^ = g^2 in step 1, so the step is lr * g / (|g| + epsilon).
  CHECK(one(Adam{}, 0.5, 1e-3, 0.01) == Approx(0.5 - 0.01 * 1e-3 / (1e-3 + 1e-8)).epsilon(1e-13));
  CHECK(one(Adam{}, 0.5, -4.0, 0.01) == Approx(0.51).epsilon(1e-9));
}

TEMPLATE_TEST_CASE("adam, adamw: many steps match the paper's formula", "[optim]", double, float) {
  const bool decoupled = GENERATE(false, true);
  const double lr = 0.02, b1 = 0.9, b2 = 0.95, eps = 1e-6, decay = 0.1, scale = 0.25;
  Problem<TestType> p(300);
  std::vector<double> w, m(300), v(300);
  for (const auto x : p.values()) w.push_back(static_cast<double>(x));
  for (int t = 1; t <= 20; ++t) {
    p.new_gradients(t);
    const auto g = download(p.exec, p.g.cref());
    for (std::size_t i = 0; i < w.size(); ++i) {
      double grad = scale * static_cast<double>(g[i]);
      if (!decoupled) grad += decay * w[i];
      if (decoupled) w[i] *= 1.0 - lr * decay;
      m[i] = b1 * m[i] + (1.0 - b1) * grad;
      v[i] = b2 * v[i] + (1.0 - b2) * grad * grad;
      const double mh = m[i] / (1.0 - std::pow(b1, t)), vh = v[i] / (1.0 - std::pow(b2, t));
      w[i] -= lr * mh / (std::sqrt(vh) + eps);
    }
    const UpdateScalars s{lr, scale, t};
    if (decoupled) {
      p.update(AdamW{.beta1 = b1, .beta2 = b2, .epsilon = eps, .weight_decay = decay}, s);
    } else {
      p.update(Adam{.beta1 = b1, .beta2 = b2, .epsilon = eps, .weight_decay = decay}, s);
    }
  }
  const double tol = std::is_same_v<TestType, double> ? 1e-13 : 2e-5;
  const auto got = p.values();
  double worst = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    worst = std::max(worst, std::abs(w[i] - static_cast<double>(got[i])));
  }
  CHECK(worst <= tol);
}

TEMPLATE_TEST_CASE("sgd: plain, momentum and Nesterov match the formula", "[optim]", double,
                   float) {
  const auto momentum = GENERATE(0.0, 0.9);
  const bool nesterov = GENERATE(false, true);
  if (nesterov && momentum == 0.0) return;
  Problem<TestType> p(257);
  std::vector<double> w, u(257);
  for (const auto x : p.values()) w.push_back(static_cast<double>(x));
  const double lr = 0.05, l2 = 0.01;
  for (int t = 1; t <= 10; ++t) {
    p.new_gradients(t);
    const auto g = download(p.exec, p.g.cref());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double grad = 0.5 * static_cast<double>(g[i]) + l2 * w[i];
      u[i] = momentum * u[i] + grad;
      w[i] -= lr * (nesterov ? grad + momentum * u[i] : u[i]);
    }
    p.update(Sgd{.momentum = momentum, .nesterov = nesterov, .l2 = l2}, {lr, 0.5, t});
  }
  const double tol = std::is_same_v<TestType, double> ? 1e-14 : 1e-6;
  const auto got = p.values();
  for (std::size_t i = 0; i < w.size(); ++i) {
    CHECK(std::abs(w[i] - static_cast<double>(got[i])) <= tol);
  }
}

TEMPLATE_TEST_CASE("optimizers: any cut of the range gives the same bits", "[optim]", AdamW, Adam,
                   Sgd) {
  const std::int64_t n = 7 * chunk_size + 100;
  Problem<float> whole(n), cut(n);
  for (int t = 1; t <= 3; ++t) {
    const UpdateScalars s{0.01, 1.0 / 3.0, t};
    whole.new_gradients(t);
    cut.new_gradients(t);
    whole.update(TestType{}, s);
    cut.update(TestType{}, s, 0, 3 * chunk_size);
    cut.update(TestType{}, s, 3 * chunk_size, 4 * chunk_size);
    cut.update(TestType{}, s, 4 * chunk_size, n);
  }
  CHECK(whole.values() == cut.values());
  CHECK(download(whole.exec, whole.m.cref()) == download(cut.exec, cut.m.cref()));
}

TEMPLATE_TEST_CASE("optimizers: frozen chunks stay as they are", "[optim]", AdamW, Adam, Sgd) {
  Problem<float> p(3 * chunk_size);
  std::vector<std::uint8_t> attributes{chunk_decays, chunk_decays | chunk_frozen, 0};
  upload(p.exec, p.attributes.ref(), std::span<const std::uint8_t>(attributes));
  const auto before = p.values();
  p.update(TestType{}, {0.1, 1.0, 1});
  const auto after = p.values();
  const auto m = download(p.exec, p.m.cref());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool frozen = i / 256 == 1;
    CHECK((before[i] == after[i]) == frozen);
    CHECK((m[i] == 0.0F) == frozen);
  }
}

TEST_CASE("optimizers: padding that is zero stays zero", "[optim]") {
  CHECK(one(AdamW{.weight_decay = 0.1}, 0.0, 0.0, 0.01) == 0.0);
  CHECK(one(Sgd{.momentum = 0.9, .nesterov = true}, 0.0, 0.0, 0.01) == 0.0);
}

TEST_CASE("optimizers: nonsense is refused", "[optim]") {
  using Catch::Matchers::ContainsSubstring;
  Problem<float> p(300);
  CHECK_THROWS_WITH(p.update(AdamW{}, {0.1, 1.0, 0}), ContainsSubstring("steps count from 1"));
  CHECK_THROWS_WITH(p.update(Sgd{.nesterov = true}, {0.1, 1.0, 1}), ContainsSubstring("momentum"));
  UpdateRange<float, mem_of<TestDevice>> r;
  r.values = p.w.ref();
  r.grads = TensorRef<const float, 1, mem_of<TestDevice>>(p.g.data(), {299});
  r.states = {p.m.ref(), p.v.ref()};
  r.attributes = p.attributes.cref();
  CHECK_THROWS_WITH((AdamW{}.update<TestDevice, float>(p.exec, r, {0.1, 1.0, 1})),
                    ContainsSubstring("299 gradients for 300 values"));
}

TEST_CASE("power: repeated multiplication", "[optim]") {
  CHECK(power(0.9, 0) == 1.0);
  CHECK(power(0.5, 10) == 0x1p-10);
  CHECK(power(0.999, 12345) == Approx(std::pow(0.999, 12345)).epsilon(1e-12));
}
