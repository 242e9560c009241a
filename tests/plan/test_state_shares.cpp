// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/state_shares.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>
#include <random>

using namespace krama::plan;
using Catch::Matchers::ContainsSubstring;

namespace {
constexpr std::int64_t chunk = 256;

std::int64_t sum(const Shares& s) { return std::accumulate(s.begin(), s.end(), std::int64_t{0}); }
}  // namespace

TEST_CASE("state shares: half the memory holds half the state, within one chunk", "[plan]") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<Bucket> buckets;
    std::int64_t at = 0;
    const int n = 1 + static_cast<int>(random() % 40);
    for (int b = 0; b < n; ++b) {
      const std::int64_t size = chunk * (1 + static_cast<std::int64_t>(random() % 50));
      buckets.push_back({at, at + size});
      at += size;
    }
    const std::int64_t total = at / chunk;
    std::vector<double> memory;
    const std::size_t ranks = 1 + random() % 6;
    for (std::size_t r = 0; r < ranks; ++r) memory.push_back(1 + static_cast<double>(random() % 4));
    const double all = std::accumulate(memory.begin(), memory.end(), 0.0);
    const Shares shares = share_state(total, memory);
    const auto cuts = cut_buckets(buckets, shares, chunk);
    REQUIRE(cuts.size() == buckets.size());
    Shares held(ranks, 0);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      REQUIRE(cuts[b].size() == ranks + 1);
      CHECK(cuts[b].front() == 0);
      CHECK(cuts[b].back() == buckets[b].size());
      for (std::size_t r = 0; r < ranks; ++r) {
        const std::int64_t piece = cuts[b][r + 1] - cuts[b][r];
        CHECK(piece >= 0);
        CHECK(piece % chunk == 0);
        held[r] += piece / chunk;
        // And about its part of each bucket, so that every update is shared out, too.
        const double part = memory[r] / all * static_cast<double>(buckets[b].size() / chunk);
        CHECK(std::abs(static_cast<double>(piece / chunk) - part) <= 3.0);
      }
    }
    CHECK(held == shares);
    for (std::size_t r = 0; r < ranks; ++r) {
      CHECK(std::abs(static_cast<double>(held[r]) - memory[r] / all * static_cast<double>(total)) <=
            1.0);
    }
  }
}

TEST_CASE("state shares: caps bind, the rest goes to those with room", "[plan]") {
  const std::vector<double> weights{1, 1, 2};
  CHECK(share_state(100, weights) == Shares{25, 25, 50});
  CHECK(share_state(100, weights, std::vector<std::int64_t>{10, 100, 100}) == Shares{10, 30, 60});
  CHECK(share_state(100, weights, std::vector<std::int64_t>{10, 30, 60}) == Shares{10, 30, 60});
  CHECK(share_state(100, std::vector<double>{0, 1}, std::vector<std::int64_t>{100, 40}) ==
        Shares{60, 40});
  CHECK_THROWS_WITH(share_state(101, weights, std::vector<std::int64_t>{10, 30, 60}),
                    ContainsSubstring("has 101 chunks"));
  CHECK_THROWS_WITH(share_state(101, weights, std::vector<std::int64_t>{10, 30}),
                    ContainsSubstring("2 caps for 3 ranks"));
  CHECK_THROWS_AS(cut_buckets({{0, 512}}, {1, 2}, chunk), krama::Error);
  for (std::int64_t total = 0; total < 60; ++total) {
    CHECK(sum(share_state(total, weights, std::vector<std::int64_t>{7, 20, 33})) == total);
  }
}
