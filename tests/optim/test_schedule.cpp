// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/optim/schedule.hpp>

#include <catch2/catch_all.hpp>
#include <cmath>

using Catch::Approx;
using krama::optim::Schedule;

TEST_CASE("schedule: constant, with and without warm-up", "[optim]") {
  CHECK(Schedule::constant(0.1).at(0) == 0.1);
  CHECK(Schedule::constant(0.1).at(1000000) == 0.1);
  const auto s = Schedule::constant(0.4, 4);
  CHECK(s.at(0) == Approx(0.1));
  CHECK(s.at(2) == Approx(0.3));
  CHECK(s.at(3) == 0.4);
  CHECK(s.at(4) == 0.4);
}

TEST_CASE("schedule: cosine follows the formula to the last bits", "[optim]") {
  const auto s = Schedule::cosine(2.0, 10, 110, 0.5);
  CHECK(s.at(0) == Approx(0.2));
  CHECK(s.at(9) == Approx(2.0));
  for (std::int64_t k = 10; k <= 110; ++k) {
    const double p = static_cast<double>(k - 10) / 100.0;
    const double pi = std::acos(-1.0);
    CHECK(std::abs(s.at(k) - (0.5 + 1.5 * 0.5 * (1.0 + std::cos(pi * p)))) <= 1e-15 * 2.0);
  }
  CHECK(s.at(110) == Approx(0.5));
  CHECK(s.at(500) == Approx(0.5));
}

TEST_CASE("schedule: cosine follows the fraction of a run limited by time", "[optim]") {
  const auto timed = Schedule::cosine(1.0, 0, 0);
  CHECK(timed.at(5, 0.0) == Approx(1.0));
  CHECK(timed.at(5, 0.5) == Approx(0.5));
  CHECK(timed.at(5, 1.0) == Approx(0.0).margin(1e-15));
  const auto both = Schedule::cosine(1.0, 0, 100);
  CHECK(both.at(50, 0.1) == Approx(0.5));
  CHECK(both.at(10, 0.5) == Approx(0.5));
}

TEST_CASE("schedule: step falls by the factor", "[optim]") {
  const auto s = Schedule::step(1.0, 30, 0.1);
  CHECK(s.at(29) == 1.0);
  CHECK(s.at(30) == 0.1);
  CHECK(s.at(65) == Approx(0.01));
}

TEST_CASE("schedule: nonsense is refused", "[optim]") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(Schedule::constant(0.0), ContainsSubstring("positive, found 0"));
  CHECK_THROWS_WITH(Schedule::constant(1.0, -1), ContainsSubstring("warm-up"));
  CHECK_THROWS_WITH(Schedule::cosine(1.0, 10, 10), ContainsSubstring("10 steps leave nothing"));
  CHECK_THROWS_WITH(Schedule::cosine(1.0, 0, 10, 2.0), ContainsSubstring("floor"));
  CHECK_THROWS_WITH(Schedule::step(1.0, 0, 0.1), ContainsSubstring("period"));
  CHECK_THROWS_WITH(Schedule::step(1.0, 1, 0.0), ContainsSubstring("factor"));
  CHECK_THROWS_WITH(Schedule::constant(1.0).at(-1), ContainsSubstring("count from 0"));
}
