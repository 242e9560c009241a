// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/model_shares.hpp>
#include <krama/plan/proportional_shares.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>

#include "plan/simulated_ranks.hpp"

using namespace krama::plan;
using plan_test::SimulatedJob;
using plan_test::SimulatedRank;

namespace {

struct Model {
  using type = ModelShares;
  static constexpr double bar = 1.0 / 0.985;  ///< of the step's time, over the bound's
};
struct MeasuredCurve {
  using type = ModelShares;
  static constexpr double bar = 1.0 / 0.985;
};
struct Proportional {
  using type = ProportionalShares;
  static constexpr double bar = 1.06;  ///< its dead band
};

template <class Rule>
auto make(std::size_t ranks, ShareLimits limits = {}, std::int64_t batch = 240) {
  auto start = equal_shares(batch, ranks, limits);
  if constexpr (std::is_same_v<Rule, MeasuredCurve>) {
    return std::make_unique<ModelShares>(start, limits,
                                         ModelOptions{.shape = CurveShape::measured});
  } else {
    return std::make_unique<typename Rule::type>(start, limits);
  }
}

const std::vector<std::vector<SimulatedRank>>& speeds() {
  static const std::vector<std::vector<SimulatedRank>> all{
      {{1}, {1}},
      {{1}, {2}},
      {{1}, {3}},
      {{1}, {5}},
      {{1}, {1}, {3}, {5}},
      {{1, 20}, {2, 5}},  // with something to do in each step besides the samples
      {{0.1, 4}, {1, 1}, {1, 0}}};
  return all;
}

}  // namespace

TEMPLATE_TEST_CASE("share controllers: any speeds, the bound is reached within 10 steps", "[plan]",
                   Model, MeasuredCurve, Proportional) {
  for (const auto& ranks : speeds()) {
    SimulatedJob job(ranks);
    auto controller = make<TestType>(ranks.size());
    job.run(*controller, 10);
    CAPTURE(controller->shares());
    CHECK(job.over_best(controller->shares()) <= TestType::bar);
    CHECK(job.run(*controller, 200) <= 1);  // and it stays there
    CHECK(job.over_best(controller->shares()) <= TestType::bar);
  }
}

TEST_CASE("share controllers: a first time that is off is mended within 10 steps", "[plan]") {
  for (const double off : {0.95, 0.98, 1.02, 1.05}) {
    for (const auto& ranks : speeds()) {
      SimulatedJob job(ranks);
      auto controller = make<Model>(ranks.size());
      for (int s = 0; s < 10; ++s) {
        auto seconds = job.step(controller->shares());
        if (s == 1) seconds.back() *= off;  // the first that is believed
        controller->after_step(seconds);
      }
      CAPTURE(off, controller->shares());
      CHECK(job.over_best(controller->shares()) <= Model::bar);
    }
  }
}

TEMPLATE_TEST_CASE("share controllers: the sum is the global batch, whatever happens", "[plan]",
                   Model, MeasuredCurve, Proportional) {
  std::mt19937_64 random(7);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int trial = 0; trial < 60; ++trial) {
    const auto ranks = static_cast<std::size_t>(2 + trial % 4);
    std::vector<SimulatedRank> speed;
    ShareLimits limits;
    for (std::size_t r = 0; r < ranks; ++r) {
      speed.push_back({real(0.1, 5), real(0, 30)});
      limits.minimum.push_back(static_cast<std::int64_t>(real(0, 5)));
      limits.maximum.push_back(static_cast<std::int64_t>(real(40, 240)) + (r == 0 ? 240 : 0));
    }
    SimulatedJob job(speed, static_cast<unsigned>(trial));
    job.set_noise(real(0, 0.5));
    auto controller = make<TestType>(ranks, limits);
    for (int s = 0; s < 100; ++s) {
      if (s % 10 == 9) job.slow_down(random() % ranks, real(0.2, 5));
      controller->after_step(job.step(controller->shares()));
      const auto& shares = controller->shares();
      CHECK(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}) == 240);
      for (std::size_t r = 0; r < ranks; ++r) {
        CHECK(shares[r] >= limits.minimum[r]);
        CHECK(shares[r] <= limits.maximum[r]);
      }
    }
  }
}

TEMPLATE_TEST_CASE("share controllers: A20 5 % noise changes nothing in 500 steps", "[plan]", Model,
                   MeasuredCurve, Proportional) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    for (const auto& ranks : speeds()) {
      SimulatedJob job(ranks, seed);
      auto controller = make<TestType>(ranks.size());
      job.run(*controller, 20);  // without noise, to where the shares belong
      job.set_noise(0.05);
      CAPTURE(seed, controller->shares());
      CHECK(job.run(*controller, 500) == 0);
      CHECK(job.over_best(controller->shares()) <= TestType::bar);
    }
  }
}

TEST_CASE("share controllers: the model starts within noise and settles on the bound", "[plan]") {
  int changes = 0;
  int runs = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    for (const auto& ranks : speeds()) {
      SimulatedJob job(ranks, seed);
      job.set_noise(0.05);
      auto controller = make<Model>(ranks.size());
      changes += job.run(*controller, 60);
      CAPTURE(seed, controller->shares());
      CHECK(job.over_best(controller->shares()) <= 1.08);
      changes += job.run(*controller, 440);
      CHECK(job.over_best(controller->shares()) <= 1.05);
      ++runs;
    }
  }
  CHECK(changes <= 3 * runs);
}

TEMPLATE_TEST_CASE("share controllers: a rank 2x slower is made up for within 10 steps, and back",
                   "[plan]", Model, MeasuredCurve, Proportional) {
  for (const double noise : {0.0, 0.05}) {
    for (const auto& ranks : speeds()) {
      for (std::size_t slow = 0; slow < ranks.size(); ++slow) {
        SimulatedJob job(ranks, 5);
        auto controller = make<TestType>(ranks.size());
        job.run(*controller, 30);
        job.set_noise(noise);
        CAPTURE(noise, slow, controller->shares());
        // With noise, no better than what the noise lets anybody know after so few steps.
        const double bar = noise > 0 ? 1.12 : TestType::bar;
        for (int time = 0; time < 3; ++time) {
          job.slow_down(slow, 2);
          job.run(*controller, 10);
          CAPTURE(time, controller->shares());
          CHECK(job.over_best(controller->shares()) <= bar);
          job.run(*controller, 40);
          job.slow_down(slow, 1);
          job.run(*controller, 10);
          CHECK(job.over_best(controller->shares()) <= bar);
          job.run(*controller, 40);
        }
      }
    }
  }
}

TEST_CASE("share controllers: memory caps bound the fast rank, the rest goes to the others",
          "[plan]") {
  SimulatedJob job(std::vector<SimulatedRank>{{1}, {3}, {3}});
  const ShareLimits limits{{1, 1, 1}, {100, 240, 240}};
  auto controller = make<Model>(3, limits);
  job.run(*controller, 10);
  CHECK(controller->shares() == Shares{100, 70, 70});
}

TEST_CASE("share controllers: a change must pay for itself", "[plan]") {
  SimulatedJob job(std::vector<SimulatedRank>{{1}, {1}});
  const Shares start{120, 120};
  ModelShares dear(start, {}, {.horizon = 100});
  job.run(dear, 10);
  job.slow_down(0, 2);
  bool changed = false;
  int changes = 0;
  for (int s = 0; s < 40; ++s) {
    auto seconds = job.step(dear.shares());
    // Whatever is moved at a change makes the next step long.
    if (changed) seconds[1] += 1e5;
    changed = dear.after_step(seconds).has_value();
    changes += changed ? 1 : 0;
  }
  CHECK(changes == 1);
  CHECK(dear.cost_of_change() > 1e4);
  job.slow_down(0, 1);  // a gain of 40 a step for 100 steps is less than 1e5
  CHECK(job.run(dear, 40) == 0);
}

TEST_CASE("share controllers: a rank that was never measured", "[plan]") {
  SimulatedJob job(std::vector<SimulatedRank>{{1}, {1}});
  ModelShares controller(Shares{240, 0});
  job.run(controller, 10);
  // Never measured, so it is taken to be like the other.
  CHECK(controller.shares() == Shares{120, 120});
  ProportionalShares other(Shares{240, 0});
  job.run(other, 10);
  CHECK(other.shares() == Shares{240, 0});
}

TEST_CASE("share controllers: fixed shares stay", "[plan]") {
  SimulatedJob job(std::vector<SimulatedRank>{{1}, {9}});
  FixedShares controller(Shares{120, 120});
  CHECK(job.run(controller, 50) == 0);
  CHECK_THROWS_AS(controller.after_step(std::vector<double>{1.0}), krama::Error);
}

TEST_CASE("share controllers: the reason says what was measured", "[plan]") {
  SimulatedJob job(std::vector<SimulatedRank>{{0.001}, {0.002}});
  auto controller = make<Model>(2);
  std::string reason;
  for (int s = 0; s < 10; ++s) {
    if (auto p = controller->after_step(job.step(controller->shares()))) reason = p->reason;
  }
  CHECK(reason == "a step takes 160 ms of computing, not 240; samples/s 1000, 500");
}
