// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/rank_times.hpp>

#include <catch2/catch_all.hpp>
#include <random>

using namespace krama::plan;
using Catch::Approx;

TEST_CASE("rank times: one number of samples gives a line through the origin", "[plan]") {
  RankTimes t;
  CHECK_FALSE(t.known());
  for (int i = 0; i < 5; ++i) t.observe(40, 0.2);
  CHECK(t.seconds(40) == Approx(0.2));
  CHECK(t.seconds(80) == Approx(0.4));
  CHECK(t.seconds(0) == 0.0);
  CHECK(t.samples_per_second() == Approx(200.0));
  t.observe(0, 0.01);  // a step without samples tells nothing
  CHECK(t.seconds(40) == Approx(0.2));
}

TEST_CASE("rank times: A17 slope and constant are found from two numbers of samples", "[plan]") {
  RankTimes t;
  const auto seconds = [](std::int64_t n) { return 0.05 + 0.002 * static_cast<double>(n); };
  for (int i = 0; i < 6; ++i) t.observe(100, seconds(100));
  for (int i = 0; i < 6; ++i) t.observe(40, seconds(40));
  CHECK(t.seconds_per_sample() == Approx(0.002).epsilon(0.05));
  CHECK(t.seconds_per_step() == Approx(0.05).epsilon(0.1));
  CHECK(t.seconds(160) == Approx(seconds(160)).epsilon(0.03));
}

TEST_CASE("rank times: noise does not make samples free, nor time negative", "[plan]") {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(1.0, 0.05);
  for (int trial = 0; trial < 200; ++trial) {
    RankTimes t;
    for (int i = 0; i < 10; ++i) t.observe(100, 0.1 * noise(random));
    for (int i = 0; i < 10; ++i) t.observe(96, 0.096 * noise(random));
    CHECK(t.seconds(50) < 0.8 * t.seconds(100));
    CHECK(t.seconds(50) > 0.3 * t.seconds(100));
    CHECK(t.noise() > 0.02);
    CHECK(t.noise() < 0.1);
  }
}

TEST_CASE("rank times: a measured curve is followed, and never falls", "[plan]") {
  RankTimes t(CurveShape::measured);
  const std::vector<std::pair<std::int64_t, double>> curve{
      {10, 0.10}, {20, 0.101}, {40, 0.15}, {80, 0.31}};
  for (const auto& [n, seconds] : curve) {
    for (int i = 0; i < 4; ++i) t.observe(n, seconds);
  }
  for (const auto& [n, seconds] : curve) CHECK(t.seconds(n) == Approx(seconds).epsilon(0.02));
  CHECK(t.seconds(60) == Approx(0.23).epsilon(0.03));
  double last = 0;
  for (std::int64_t n = 1; n < 200; ++n) {
    CHECK(t.seconds(n) >= last);
    last = t.seconds(n);
  }
}

TEST_CASE("rank times: one slow step is left out, two are another speed", "[plan]") {
  RankTimes t;
  for (int i = 0; i < 20; ++i) t.observe(50, 0.1);
  t.observe(50, 0.4);
  CHECK(t.suspicious());
  CHECK(t.seconds(50) == Approx(0.1));
  t.observe(50, 0.1);
  CHECK_FALSE(t.suspicious());
  CHECK(t.seconds(50) == Approx(0.1));
  t.observe(50, 0.05);  // the other way: not the same thing twice
  t.observe(50, 0.2);
  CHECK(t.seconds(50) == Approx(0.1));
  t.observe(50, 0.2);
  CHECK(t.seconds(50) == Approx(0.2).epsilon(0.01));
  CHECK(t.seconds(25) == Approx(0.1).epsilon(0.02));  // all of the curve moves
}

TEST_CASE("rank times: another speed is noticed while the samples change, too", "[plan]") {
  RankTimes t;
  for (int i = 0; i < 20; ++i) t.observe(50, 0.1);
  t.observe(100, 0.6);  // three times as slow: more than any curve allows
  t.observe(100, 0.6);
  CHECK(t.seconds(100) == Approx(0.6).epsilon(0.02));
  CHECK(t.seconds(50) == Approx(0.3).epsilon(0.1));
}

TEST_CASE("rank times: drift is followed", "[plan]") {
  RankTimes t;
  double seconds = 0.1;
  for (int i = 0; i < 300; ++i) {
    t.observe(50, seconds);
    seconds *= 1.001;
  }
  CHECK(t.seconds(50) == Approx(seconds).epsilon(0.05));
}
