// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/share_controller.hpp>
#include <krama/plan/shares.hpp>
#include <krama/plan/solve_shares.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>
#include <random>

using namespace krama::plan;
using Catch::Matchers::ContainsSubstring;

namespace {

std::int64_t sum(const Shares& s) { return std::accumulate(s.begin(), s.end(), std::int64_t{0}); }

/// A rank's time: constant + slope n + stair ceil(n / micro), as micro-batches make it; or a random
/// curve that does not fall.
struct Rank {
  double constant = 0;
  double slope = 0;
  double stair = 0;
  std::int64_t micro = 1;
  std::vector<double> curve;

  [[nodiscard]] double seconds(std::int64_t n) const {
    if (!curve.empty()) return curve[static_cast<std::size_t>(n)];
    return constant + slope * static_cast<double>(n) +
           stair * static_cast<double>((n + micro - 1) / micro);
  }
};

/// The best end of any shares within the limits, by trying them all.
double brute_force(std::int64_t left, std::size_t r, const ShareLimits& limits,
                   const std::vector<Rank>& ranks) {
  if (r + 1 == ranks.size()) {
    return left >= limits.least(r) && left <= limits.most(r) ? ranks[r].seconds(left) : 1e300;
  }
  double best = 1e300;
  for (std::int64_t n = limits.least(r); n <= std::min(left, limits.most(r)); ++n) {
    best =
        std::min(best, std::max(ranks[r].seconds(n), brute_force(left - n, r + 1, limits, ranks)));
  }
  return best;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  double real(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_()) * 0x1p-64;
  }

 private:
  std::mt19937_64 engine_;
};

Rank some_rank(Random& random, std::int64_t batch) {
  Rank rank{random.real(0, 5), random.real(0, 3), random.real(0, 4), random.whole(1, 4), {}};
  if (random.whole(0, 2) == 0) {
    double at = random.real(0, 2);
    for (std::int64_t n = 0; n <= batch; ++n) {
      rank.curve.push_back(at);
      at += random.whole(0, 1) == 0 ? 0.0 : random.real(0, 2);
    }
  }
  return rank;
}

ShareLimits some_limits(Random& random, std::size_t ranks, std::int64_t batch) {
  ShareLimits limits;
  if (random.whole(0, 1) == 0) return limits;
  for (std::size_t r = 0; r < ranks; ++r) {
    limits.minimum.push_back(random.whole(0, 2));
    limits.maximum.push_back(limits.minimum[r] + random.whole(0, batch));
  }
  return limits;
}

}  // namespace

TEST_CASE("shares: A17 solved shares equal brute force, within all limits", "[plan]") {
  Random random(11);
  int solved = 0;
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const std::int64_t batch = random.whole(1, 14);
    std::vector<Rank> ranks(static_cast<std::size_t>(random.whole(1, 4)));
    for (auto& r : ranks) r = some_rank(random, batch);
    const ShareLimits limits = some_limits(random, ranks.size(), batch);
    const double best = brute_force(batch, 0, limits, ranks);
    const auto cost = [&](std::size_t r, std::int64_t n) { return ranks[r].seconds(n); };
    if (best > 1e299) {
      CHECK_THROWS_AS(solve_shares(batch, ranks.size(), limits, cost), krama::Error);
      ++refused;
      continue;
    }
    const Shares found = solve_shares(batch, ranks.size(), limits, cost);
    CHECK(sum(found) == batch);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      CHECK(found[r] >= limits.least(r));
      CHECK(found[r] <= limits.most(r));
    }
    CHECK(slowest(found, cost) == best);
    ++solved;
  }
  CHECK(solved > 3000);
  CHECK(refused > 100);
}

TEST_CASE("shares: a border that overlaps is solved exactly too, bound by either", "[plan]") {
  Random random(12);
  int border_bound = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const std::int64_t batch = random.whole(2, 14);
    std::vector<Rank> work(static_cast<std::size_t>(random.whole(2, 3)));
    std::vector<BorderTimes> borders;
    for (auto& r : work) {
      r = {random.real(0, 2), random.real(0.1, 3), 0, 1, {}};
      borders.push_back({random.real(0.2, 1), random.real(0, 12), random.real(0, 1)});
    }
    std::vector<Rank> ends(work.size());
    for (std::size_t r = 0; r < work.size(); ++r) {
      for (std::int64_t n = 0; n <= batch; ++n) {
        ends[r].curve.push_back(borders[r].end_of(work[r].seconds(n)));
      }
    }
    const auto cost = [&](std::size_t r, std::int64_t n) {
      return borders[r].end_of(work[r].seconds(n));
    };
    const Shares found = solve_shares(batch, work.size(), {}, cost);
    CHECK(slowest(found, cost) == brute_force(batch, 0, {}, ends));
    if (slowest(found, [&](std::size_t r, std::int64_t n) { return work[r].seconds(n); }) + 1.0 <
        slowest(found, cost)) {
      ++border_bound;
    }
  }
  CHECK(border_bound > 100);
  CHECK(border_bound < 900);
}

TEST_CASE("shares: large batches are solved as small ones are, and end together", "[plan]") {
  Random random(13);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t batch = random.whole(3000, 60000);
    std::vector<Rank> ranks(static_cast<std::size_t>(random.whole(1, 9)));
    for (auto& r : ranks) {
      r = {random.real(0, 5), random.real(0.01, 3), random.real(0, 4), random.whole(1, 64), {}};
    }
    ShareLimits limits;
    if (trial % 2 == 0) {
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        limits.minimum.push_back(random.whole(0, 100));
        limits.maximum.push_back(random.whole(100, r == 0 ? 60000 : 5000));
      }
      limits.maximum[0] += batch;
    }
    const auto cost = [&](std::size_t r, std::int64_t n) { return ranks[r].seconds(n); };
    const Shares found = solve_shares(batch, ranks.size(), limits, cost);
    CHECK(sum(found) == batch);
    const double end = slowest(found, cost);
    // The last rank's last sample can go nowhere: everybody else would end later with it.
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const bool is_last = cost(r, found[r]) == end;
      if (!is_last && found[r] < limits.most(r)) CHECK(cost(r, found[r] + 1) >= end);
      CHECK(found[r] >= limits.least(r));
      CHECK(found[r] <= limits.most(r));
    }
  }
  CHECK(solve_shares(5000, 2, {}, [](std::size_t, std::int64_t) { return 0.0; }).front() == 5000);
}

TEST_CASE("shares: a rank whose cap cannot hold its minimum is named", "[plan]") {
  CHECK_THROWS_WITH(check_limits(10, 3, {{1, 4, 1}, {9, 3, 9}}),
                    ContainsSubstring("rank 1 can hold 3 samples and must take at least 4"));
  CHECK_THROWS_WITH(check_limits(10, 2, {{6, 6}, {}}), ContainsSubstring("must take 12"));
  CHECK_THROWS_WITH(check_limits(10, 2, {{}, {4, 5}}), ContainsSubstring("hold 9 together"));
  CHECK_THROWS_WITH(check_limits(10, 2, {{1}, {}}), ContainsSubstring("1 minima"));
  CHECK_THROWS_WITH(check_limits(10, 2, {{-1, 0}, {}}), ContainsSubstring("minimum of rank 0"));
  CHECK_THROWS_AS(check_limits(0, 2, {}), krama::Error);
  CHECK_THROWS_WITH(FixedShares({4, 6}, {{}, {3, 9}}), ContainsSubstring("rank 0 gets 4 samples"));
  CHECK_NOTHROW(check_limits(10, 2, {{5, 5}, {5, 5}}));
}

TEST_CASE("shares: equal as far as the limits allow", "[plan]") {
  CHECK(equal_shares(10, 3, {}) == Shares{4, 3, 3});
  CHECK(equal_shares(10, 3, {{}, {2, 9, 9}}) == Shares{2, 4, 4});
  CHECK(equal_shares(10, 3, {{6, 0, 0}, {}}) == Shares{6, 2, 2});
  CHECK(equal_shares(2, 3, {}) == Shares{1, 1, 0});
}

TEST_CASE("shares: how they are told", "[plan]") {
  CHECK(describe(Shares{60, 180}) == "rank 0 60, rank 1 180 of 240 samples");
  CHECK(describe(Shares{5, 5, 5, 1}) == "ranks 0-2 5 each, rank 3 1 of 16 samples");
  CHECK(ShareChange{7, {120, 120}, {60, 180}, "because"}.line() ==
        "shares from step 8: rank 0 60, rank 1 180 of 240 samples (was 120:120): because");
  CHECK(ShareChange{0, {}, {3, 1}, "as given"}.line() ==
        "shares from step 1: rank 0 3, rank 1 1 of 4 samples: as given");
}
