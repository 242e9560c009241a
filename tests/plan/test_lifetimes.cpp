// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/lifetimes.hpp>

#include <catch2/catch_all.hpp>
#include <random>

using namespace krama::plan;

namespace {
void check_placement(const std::vector<Lifetime>& pieces, const Placement& p) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].bytes == 0) continue;
    CHECK(p.offsets[i] % 64 == 0);
    CHECK(p.offsets[i] + pieces[i].bytes <= p.peak);
    for (std::size_t j = 0; j < i; ++j) {
      if (pieces[j].bytes == 0 || !pieces[i].overlaps(pieces[j])) continue;
      const bool apart = p.offsets[i] + pieces[i].bytes <= p.offsets[j] ||
                         p.offsets[j] + pieces[j].bytes <= p.offsets[i];
      CHECK(apart);
    }
  }
}
}  // namespace

TEST_CASE("lifetimes: pieces alive together never overlap", "[plan]") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> pieces;
    const int n = 1 + static_cast<int>(random() % 30);
    for (int i = 0; i < n; ++i) {
      const int first = static_cast<int>(random() % 20);
      const int length = static_cast<int>(random() % 10);
      pieces.push_back({static_cast<std::int64_t>(random() % 5000), first, first + length});
    }
    const Placement p = place(pieces);
    check_placement(pieces, p);
    CHECK(p.peak >= largest_live(pieces));
  }
}

TEST_CASE("lifetimes: at most 1.1 times what is alive, for random sizes and lives", "[plan]") {
  std::mt19937 random(6);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  double worst = 1;
  for (int round = 0; round < 600; ++round) {
    std::vector<Lifetime> pieces;
    const int n = 1 + below(60);
    for (int i = 0; i < n; ++i) {
      const int first = below(40);
      // Short lives, any lives, mostly short ones of sizes that are powers of two.
      const int length = round % 3 == 0   ? below(10)
                         : round % 3 == 1 ? below(40)
                         : below(4) > 0   ? below(4)
                                          : 20 + below(20);
      const int units = round % 3 == 2 ? 1 << below(12) : 1 + below(2000);
      pieces.push_back({64 * units, first, first + length});
    }
    const Placement p = place(pieces);
    check_placement(pieces, p);
    worst =
        std::max(worst, static_cast<double>(p.peak) / static_cast<double>(largest_live(pieces)));
  }
  CHECK(worst <= 1.1);
}

TEST_CASE("lifetimes: what the link brings may take the place of what it takes away", "[plan]") {
  Lifetime leaves{640, 0, 9};
  leaves.link_after = 3;
  Lifetime comes{640, 5, 12};
  CHECK(place({leaves, comes}).peak == 1280);
  comes.by_link = true;
  CHECK(place({leaves, comes}).peak == 640);
  // Not what is computed in the meantime.
  CHECK(place({leaves, {640, 5, 6}}).peak == 1280);
}

TEST_CASE("lifetimes: forward and backward of a chain need no more than what is alive", "[plan]") {
  // Stashes of a chain nest: [i, 2n - i]. A placement without waste exists and is found.
  std::vector<Lifetime> pieces;
  for (int i = 0; i < 16; ++i) pieces.push_back({64 * (1 + i % 5), i, 32 - i});
  const Placement p = place(pieces);
  check_placement(pieces, p);
  CHECK(p.peak == largest_live(pieces));
}

TEST_CASE("lifetimes: memory is used again after its owner's end", "[plan]") {
  const Placement p = place({{640, 0, 1}, {640, 2, 3}, {640, 4, 5}});
  CHECK(p.peak == 640);
}

TEST_CASE("lifetimes: nothing needs nothing", "[plan]") {
  CHECK(place({}).peak == 0);
  CHECK(place({{0, 0, 5}}).peak == 0);
  CHECK(place({{128, 3, 2}}).peak == 0);
}
