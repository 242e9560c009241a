// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/baselines.hpp>
#include <krama/plan/timeline.hpp>

#include <catch2/catch_all.hpp>
#include <map>

#include "plan/random_costs.hpp"

using namespace krama::plan;
using Kind = TimelineEvent::Kind;
using R = Residency;

namespace {
/// Looks at nothing but the events: is every rule of the step kept?
void check_events(const StepCosts& costs, const Residencies& what,
                  const std::vector<TimelineEvent>& events) {
  constexpr double eps = 1e-9;
  std::map<std::pair<Kind, int>, TimelineEvent> at;
  double compute_end = 0;
  double link_end = 0;
  double last_out = 0;
  double first_in = 1e300;
  for (const auto& e : events) {
    CHECK(at.emplace(std::pair{e.kind, e.block}, e).second);
    double& lane = e.kind == Kind::out || e.kind == Kind::in ? link_end : compute_end;
    CHECK(e.begin >= lane - eps);
    lane = e.end;
    if (e.kind == Kind::out) last_out = std::max(last_out, e.end);
    if (e.kind == Kind::in) first_in = std::min(first_in, e.begin);
  }
  CHECK(first_in >= last_out - eps);
  // Each piece of memory: bytes from when to when.
  struct Piece {
    std::int64_t bytes;
    double from, to;
  };
  std::vector<Piece> memory;
  const int n = costs.count();
  for (int b = 0; b < n; ++b) {
    const auto k = static_cast<std::size_t>(b);
    const auto& c = costs.blocks[k];
    const auto f = at.at({Kind::forward, b});
    const auto g = at.at({Kind::backward, b});
    if (what[k] == R::keep) memory.push_back({c.saved, f.begin, g.end});
    if (what[k] == R::swap) {
      const auto o = at.at({Kind::out, b});
      const auto i = at.at({Kind::in, b});
      CHECK(o.begin >= f.end - eps);
      CHECK(g.begin >= i.end - eps);
      memory.push_back({c.saved, f.begin, o.end});
      memory.push_back({c.saved, i.begin, g.end});
    }
    if (!is_recomputed(what[k])) continue;
    const auto r = at.at({Kind::recompute, b});
    CHECK(g.begin >= r.end - eps);
    memory.push_back({c.saved, f.begin, f.end});
    memory.push_back({c.saved, r.begin, g.end});
    if (what[k] == R::recompute) memory.push_back({c.input, f.end, r.begin});
    if (what[k] == R::swap_input) {
      const auto o = at.at({Kind::out, b});
      const auto i = at.at({Kind::in, b});
      CHECK(r.begin >= i.end - eps);
      memory.push_back({c.input, f.end, o.end});
      memory.push_back({c.input, i.begin, r.begin});
    }
  }
  std::int64_t peak = 0;
  for (const auto& p : memory) {
    std::int64_t used = 0;
    for (const auto& q : memory) {
      if (q.from <= p.from + eps && p.from + eps < q.to - eps) used += q.bytes;
    }
    peak = std::max(peak, used);
  }
  CHECK(peak <= costs.budget);
}

StepCosts equal_blocks(int n, double bandwidth, std::int64_t budget) {
  StepCosts c;
  c.blocks.assign(static_cast<std::size_t>(n), {1, 2, 100, 5, 0});
  c.link = {0, bandwidth * 100, bandwidth * 100};
  c.budget = budget;
  return c;
}
}  // namespace

TEST_CASE("timeline: every rule holds, whatever the plan", "[plan]") {
  std::mt19937 random(21);
  int fitted = 0;
  for (int round = 0; round < 400; ++round) {
    const int n = 1 + static_cast<int>(random() % 14);
    const StepCosts costs = plan_test::random_costs(random, n);
    Residencies what;
    for (int b = 0; b < n; ++b) {
      auto r = static_cast<R>(random() % 5);
      if (r == R::chain && (b == 0 || !is_recomputed(what.back()))) r = R::swap;
      what.push_back(r);
    }
    std::vector<TimelineEvent> events;
    const Prediction p = StepSimulator(costs).run(what, &events);
    if (!p.fits) {
      CHECK(p.needed > costs.budget);
      continue;
    }
    ++fitted;
    CHECK(p.needed <= costs.budget);
    check_events(costs, what, events);
    CHECK(p.seconds >= p.compute - 1e-9);
    CHECK(p.compute == Catch::Approx(costs.in_core_seconds() + p.recompute));
  }
  CHECK(fitted > 100);
}

TEST_CASE("timeline: by hand", "[plan]") {
  // Two blocks, room for one: F0, wait for its swap-out (100 bytes at 50 a second), F1 keeps, B1,
  // then its room takes block 0's values in.
  StepCosts c = equal_blocks(2, 0.5, 100);
  const Prediction p = StepSimulator(c).run({R::swap, R::keep});
  REQUIRE(p.fits);
  CHECK(p.seconds == Catch::Approx(1 + 2 + 1 + 2 + 2 + 2));
  CHECK(p.stall() == Catch::Approx(4));
  CHECK(p.needed == 100);
  // Room for two: nothing waits for the way out, and the way in runs beside B1 as soon as it may.
  c.budget = 200;
  CHECK(StepSimulator(c).run({R::swap, R::keep}).seconds == Catch::Approx(1 + 1 + 2 + 1 + 2));
}

TEST_CASE("timeline: infinite and hopeless links", "[plan]") {
  const auto fast = equal_blocks(12, 1e6, 300);
  CHECK(eager_swap(fast)->predicted.seconds == Catch::Approx(36).epsilon(1e-4));
  for (const R r : plan_memory(fast).what) CHECK_FALSE(is_recomputed(r));
  const auto slow = equal_blocks(12, 1e-6, 300);
  const MemoryPlan p = plan_memory(slow);
  for (const R r : p.what) CHECK_FALSE(is_swapped(r));
  CHECK(p.predicted.stall() == Catch::Approx(0).margin(1e-9));
}

TEST_CASE("timeline: the order of methods for twelve equal blocks", "[plan]") {
  for (const auto& [bandwidth, budget] : std::vector<std::pair<double, std::int64_t>>{
           {0.25, 350}, {0.25, 500}, {0.33, 800}, {0.5, 500}, {1.0, 500}}) {
    StepCosts c = equal_blocks(12, bandwidth, budget);
    const double swap = eager_swap(c)->predicted.seconds;
    const double capacity = capacity_swap(c)->predicted.seconds;
    const double dropped = recompute_all(c)->predicted.seconds;
    const double planned = plan_memory(c).predicted.seconds;
    CHECK(dropped == Catch::Approx(48));
    CHECK(capacity <= swap);
    CHECK(planned <= std::min(capacity, dropped));
    CHECK(planned >= 36);
  }
}
