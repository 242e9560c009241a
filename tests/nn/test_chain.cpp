// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/chain.hpp>
#include <krama/nn/residual.hpp>

#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/gelu.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/layers/silu.hpp>
#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "nn/scale_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <string>
#include <vector>

using namespace krama;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nn::chain;
using nn::named;
using nn::residual;
using nn::Saves;
using test::run_layer;
using test::Scale;

namespace {

using ByInput = Scale<Saves::input>;
using ByOutput = Scale<Saves::output>;

template <class T, class N>
void check(const N& n, const Shape& in) {
  const auto report = testing::check_layer<TestDevice, T>(n, in, {.low = -1.5, .high = 1.5});
  CHECK(report.text() == "");
}

template <class N>
std::vector<std::string> names(const N& n) {
  ParamSpec spec;
  auto visit = [](int, const std::string&, bool) {};
  nn::node::params(n, spec, visit);
  std::vector<std::string> out;
  for (const auto& p : spec.infos()) out.push_back(p.name);
  return out;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }
double silu_slope(double x) {
  const double s = 1.0 / (1.0 + std::exp(-x));
  return s * (1.0 + x * (1.0 - s));
}

const std::vector<double> x{-1.0, 0.5, 2.0, -0.25, 1.0, 3.0};
const std::vector<double> dy{0.5, -1.0, 0.25, 1.0, 2.0, -0.5};
const std::vector<double> w{0.5, -2.0, 1.25};

}  // namespace

TEMPLATE_TEST_CASE("chain: gradients and contract for every way of keeping values", "[nn]", double,
                   float) {
  using T = TestType;
  const Shape in{5, 3};
  check<T>(chain(ByInput{3}), in);
  check<T>(chain(ByInput{3}, nn::Silu{}, ByInput{3}), in);    // both neighbours read their input
  check<T>(chain(nn::Silu{}, ByOutput{3}, nn::Gelu{}), in);   // output and input read
  check<T>(chain(ByInput{3}, ByOutput{3}, ByOutput{3}), in);  // kept by an in-place layer
  check<T>(chain(ByInput{3}, nn::Dropout{0.4}, nn::Dropout{0.2}), in);  // nobody reads: in place
  check<T>(chain(nn::Dropout{0.4}, nn::Dropout{0.2}, nn::Silu{}, nn::Dropout{0.1}), in);
  check<T>(chain(chain(nn::Silu{}, ByInput{3}), chain(nn::Gelu{}, ByOutput{3})), in);
}

TEST_CASE("chain: values and gradients are those of the composition", "[nn]") {
  // y = silu(w x), with gradients by the chain rule on paper.
  const auto r = run_layer<double>(chain(ByInput{3}, nn::Silu{}), {2, 3}, x, w, dy);
  std::vector<double> dw(3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double h = w[i % 3] * x[i];
    CHECK(r.y[i] == Approx(silu(h)));
    CHECK(r.dx[i] == Approx(dy[i] * silu_slope(h) * w[i % 3]));
    dw[i % 3] += dy[i] * silu_slope(h) * x[i];
  }
  for (std::size_t c = 0; c < 3; ++c) CHECK(r.grads[c] == Approx(dw[c]));
}

TEST_CASE("chain: parameters are named by position or by name", "[nn]") {
  CHECK(names(chain(ByInput{3}, nn::Silu{}, ByInput{3})) ==
        std::vector<std::string>{"0.weight", "2.weight"});
  CHECK(names(chain(named("up", ByInput{3}), nn::Silu{}, named("down", chain(ByInput{3})))) ==
        std::vector<std::string>{"up.weight", "down.0.weight"});
  CHECK(names(residual(named("branch", ByInput{3}))) == std::vector<std::string>{"branch.weight"});
  CHECK(names(chain(residual(named("a", ByInput{3}), ByInput{3}))) ==
        std::vector<std::string>{"0.a.weight", "0.1.weight"});
  CHECK_THROWS_WITH(names(chain(named("a", ByInput{3}), named("a", ByInput{3}))),
                    ContainsSubstring("two parameters are called \"a.weight\""));
}

TEST_CASE("chain: memory is what backward reads, and no more", "[nn]") {
  const Shape in{2, 8};  // 64 bytes in float: one aligned region a value
  // Between Scale and Silu one value is kept; dropout after dropout keeps nothing.
  CHECK(nn::node::sizes<TestDevice, float>(chain(ByInput{8}, nn::Silu{}), in).stash == 64);
  CHECK(nn::node::sizes<TestDevice, float>(chain(nn::Dropout{}, nn::Dropout{}, nn::Dropout{}), in)
            .stash == 0);
  CHECK(nn::node::sizes<TestDevice, float>(chain(nn::Silu{}, nn::Silu{}, nn::Silu{}), in).stash ==
        128);
  CHECK(nn::node::needs_input<decltype(chain(nn::Silu{}, nn::Dropout{}))>());
  CHECK_FALSE(nn::node::needs_output<decltype(chain(nn::Silu{}, nn::Dropout{}))>());
  CHECK_FALSE(nn::node::needs_input<decltype(chain(nn::Dropout{}, nn::Relu{}))>());
  CHECK(nn::node::needs_output<decltype(chain(nn::Dropout{}, nn::Relu{}))>());
}

TEST_CASE("chain: a misfit says which extents", "[nn]") {
  CHECK_THROWS_WITH(chain(ByInput{3}, ByInput{4}).out({2, 3}),
                    ContainsSubstring("the last extent must be 4, found (2, 3)"));
}

TEMPLATE_TEST_CASE("residual: gradients and contract", "[nn]", double, float) {
  const Shape in{5, 3};
  check<TestType>(residual(ByInput{3}), in);
  check<TestType>(residual(ByOutput{3}), in);  // reads its own output, which y is not
  check<TestType>(residual(nn::Silu{}, ByOutput{3}), in);
  check<TestType>(residual(nn::Dropout{0.3}), in);
  check<TestType>(chain(residual(ByInput{3}, nn::Silu{}), residual(ByOutput{3}), nn::Silu{}), in);
  check<TestType>(residual(residual(ByInput{3})), in);
}

TEST_CASE("residual: y = x + f(x), dx = dy + f'(x) dy", "[nn]") {
  for (const bool by_output : {false, true}) {
    const auto r = by_output ? run_layer<double>(residual(ByOutput{3}), {2, 3}, x, w, dy)
                             : run_layer<double>(residual(ByInput{3}), {2, 3}, x, w, dy);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(r.y[i] == Approx((1.0 + w[i % 3]) * x[i]));
      CHECK(r.dx[i] == Approx((1.0 + w[i % 3]) * dy[i]));
    }
    CHECK(r.grads[1] == Approx(dy[1] * x[1] + dy[4] * x[4]));
  }
}

namespace {
/// Drops every second feature.
struct Halve {
  static constexpr std::string_view type_name = "halve";
  static constexpr Saves saves = Saves::none;
  [[nodiscard]] Shape out(const Shape& in) const { return in.with(-1, in[-1] / 2); }
};
}  // namespace

TEST_CASE("residual: a branch that changes the shape is refused", "[nn]") {
  CHECK_THROWS_WITH(residual(Halve{}).out({2, 8}),
                    ContainsSubstring("the branch turns (2, 8) into (2, 4)"));
}
