// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/kernels/vector_math.hpp>

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

namespace kernels = krama::kernels;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float tiny = std::numeric_limits<float>::denorm_min();

/// Largest error in units in the last place over every 997th float in [low, high].
template <class F, class R>
double worst_ulp(F f, R reference, float low = -inf, float high = inf) {
  double worst = 0.0;
  for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += 997) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(u));
    if (!(x >= low && x <= high)) continue;
    const double want = reference(static_cast<double>(x));
    const float y = f(x);
    if (std::isnan(want)) {
      if (!std::isnan(y)) return inf;
      continue;
    }
    if (std::isinf(static_cast<float>(want))) {
      if (static_cast<float>(want) != y) return inf;
      continue;
    }
    int exponent = 0;
    std::frexp(want, &exponent);
    const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
    worst = std::max(worst, std::abs(static_cast<double>(y) - want) / ulp);
    if (std::isnan(y)) return inf;
  }
  return worst;
}

}  // namespace

TEST_CASE("vector_math: exp is within 1.1 ulp, subnormal results included") {
  const auto f = [](float v) { return kernels::exp(v); };
  CHECK(worst_ulp(f, [](double v) { return std::exp(v); }) <= 1.1);
  CHECK(kernels::exp(-inf) == 0.0F);
  CHECK(kernels::exp(inf) == inf);
  CHECK(kernels::exp(0.0F) == 1.0F);
  CHECK(kernels::exp(-103.0F) > 0.0F);
  CHECK(std::isnan(kernels::exp(nan_value)));
  CHECK(std::isnan(kernels::exp(-nan_value)));
  CHECK(kernels::exp(0.5) == std::exp(0.5));
}

TEST_CASE("vector_math: exp_nonpositive is within 1.1 ulp and ends in an exact zero") {
  const auto f = [](float v) { return kernels::exp_nonpositive(v); };
  CHECK(worst_ulp(f, [](double v) { return std::exp(v); }, -87.0F, 0.0F) <= 1.1);
  CHECK(kernels::exp_nonpositive(0.0F) == 1.0F);
  CHECK(kernels::exp_nonpositive(-87.5F) == 0.0F);
  CHECK(kernels::exp_nonpositive(-inf) == 0.0F);
  CHECK(std::isnan(kernels::exp_nonpositive(nan_value)));
}

TEST_CASE("vector_math: log is within 1 ulp, subnormal arguments included") {
  const auto f = [](float v) { return kernels::log(v); };
  CHECK(worst_ulp(f, [](double v) { return std::log(v); }) <= 1.0);
  CHECK(kernels::log(0.0F) == -inf);
  CHECK(kernels::log(-0.0F) == -inf);
  CHECK(kernels::log(inf) == inf);
  CHECK(kernels::log(1.0F) == 0.0F);
  CHECK(std::abs(kernels::log(tiny) - std::log(tiny)) < 1e-5F);
  CHECK(std::isnan(kernels::log(-1.0F)));
  CHECK(std::isnan(kernels::log(-inf)));
  CHECK(std::isnan(kernels::log(nan_value)));
}

TEST_CASE("vector_math: tanh, sigmoid and erf keep their stated errors on both tails") {
  const auto tanh = [](float v) { return kernels::tanh(v); };
  const auto sigmoid = [](float v) { return kernels::sigmoid(v); };
  const auto erf = [](float v) { return kernels::erf(v); };
  CHECK(worst_ulp(tanh, [](double v) { return std::tanh(v); }) <= 1.5);
  CHECK(worst_ulp(sigmoid, [](double v) { return 1.0 / (1.0 + std::exp(-v)); }) <= 2.4);
  CHECK(worst_ulp(erf, [](double v) { return std::erf(v); }) <= 1.3);
  for (const auto& f : {+tanh, +erf}) {
    CHECK(f(inf) == 1.0F);
    CHECK(f(-inf) == -1.0F);
    CHECK(f(tiny) == tiny);
    CHECK(std::signbit(f(-0.0F)));
    CHECK(std::isnan(f(nan_value)));
  }
  CHECK(kernels::sigmoid(inf) == 1.0F);
  CHECK(kernels::sigmoid(-inf) == 0.0F);
  CHECK(kernels::sigmoid(0.0F) == 0.5F);
  CHECK(std::isnan(kernels::sigmoid(nan_value)));
  CHECK(kernels::erf(0.3) == std::erf(0.3));
  CHECK(kernels::tanh(0.3) == std::tanh(0.3));
}
