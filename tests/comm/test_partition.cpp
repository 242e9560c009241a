// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/partition.hpp>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using krama::Partition;

TEST_CASE("partition: covers the range within half a chunk of the ideal", "[comm]") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto parts = static_cast<std::size_t>(1 + random() % 9);
    const auto n = static_cast<std::int64_t>(random() % (round % 3 == 0 ? 600 : 5000000));
    std::vector<double> weights(parts);
    double total = 0;
    for (auto& w : weights) {
      w = random() % 4 == 0 ? 0.0 : static_cast<double>(random() % 1000) * 0.013;
      total += w;
    }
    if (!(total > 0)) {
      weights[0] = 1;
      total = 1;
    }
    const auto p = Partition::by_weight(n, weights);
    REQUIRE(p.parts() == static_cast<int>(parts));
    REQUIRE(p.size() == n);
    REQUIRE(p.begin(0) == 0);
    double running = 0;
    for (int r = 0; r < p.parts(); ++r) {
      const double w = weights[static_cast<std::size_t>(r)];
      running += w;
      REQUIRE(p.end(r) >= p.begin(r));
      REQUIRE((p.end(r) % Partition::chunk == 0 || p.end(r) == n));
      const double ideal = static_cast<double>(n) * running / total;
      REQUIRE(std::abs(static_cast<double>(p.end(r)) - ideal) <=
              static_cast<double>(Partition::chunk));
      if (w == 0) REQUIRE(p.count(r) == 0);
    }
  }
}

TEST_CASE("partition: known cuts", "[comm]") {
  CHECK(Partition::even(1024, 4).cuts()[1] == 256);
  CHECK(Partition::by_weight(1024, std::vector<double>{3, 1}).end(0) == 768);
  CHECK(Partition::even(100, 3).count(0) + Partition::even(100, 3).count(2) <= 100);
  CHECK(Partition::even(0, 3) == Partition(std::vector<std::int64_t>{0, 0, 0, 0}));
  CHECK(Partition::even(57, 2, 1).count(0) == 29);
  // More elements than 32 bits count (C07).
  CHECK(Partition::even(std::int64_t{1} << 33, 2).end(0) == std::int64_t{1} << 32);
}

TEST_CASE("partition: wrong arguments say what is wrong", "[comm]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(Partition::by_weight(10, std::vector<double>{}), krama::Error);
  CHECK_THROWS_AS(Partition::by_weight(10, std::vector<double>{0, 0}), krama::Error);
  CHECK_THROWS_AS(Partition::by_weight(10, std::vector<double>{1, -1}), krama::Error);
  CHECK_THROWS_AS(Partition::by_weight(10, std::vector<double>{1, nan}), krama::Error);
  CHECK_THROWS_AS(Partition::by_weight(-1, std::vector<double>{1}), krama::Error);
  CHECK_THROWS_AS(Partition(std::vector<std::int64_t>{0, 5, 4}), krama::Error);
  CHECK_THROWS_AS(Partition(std::vector<std::int64_t>{1, 5}), krama::Error);
}
