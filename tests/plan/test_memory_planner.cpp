// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/baselines.hpp>
#include <krama/plan/memory_planner.hpp>

#include <catch2/catch_all.hpp>
#include <chrono>
#include <limits>

#include "plan/random_costs.hpp"

using namespace krama::plan;
using plan_test::random_costs;

namespace {
/// All plans of a class, one by one, through the simulator.
class BruteForce {
 public:
  BruteForce(const StepCosts& costs, std::vector<Residency> choices)
      : simulator_(costs), choices_(std::move(choices)), what_(costs.blocks.size()) {
    visit(0);
  }
  [[nodiscard]] double seconds() const { return best_; }

 private:
  void visit(std::size_t b) {
    if (b == what_.size()) {
      const Prediction p = simulator_.run(what_);
      if (p.fits) best_ = std::min(best_, p.seconds);
      return;
    }
    for (const Residency r : choices_) {
      if (r == Residency::chain && (b == 0 || !is_recomputed(what_[b - 1]))) continue;
      what_[b] = r;
      visit(b + 1);
    }
  }
  StepSimulator simulator_;
  std::vector<Residency> choices_;
  Residencies what_;
  double best_ = std::numeric_limits<double>::infinity();
};

/// The planner's time; infinite when it refuses.
double planned(const StepCosts& costs, const PlannerOptions& o, double* bound = nullptr) {
  try {
    const MemoryPlan p = plan_memory(costs, o);
    if (bound != nullptr) *bound = p.lower_bound;
    CHECK(p.predicted.needed <= costs.budget);
    return p.predicted.seconds;
  } catch (const DoesNotFit& e) {
    CHECK(costs.budget < smallest_budget(costs, o));
    CHECK(e.needed() > costs.budget);
    return std::numeric_limits<double>::infinity();
  }
}

struct Class {
  const char* name;
  PlannerOptions options;
  std::vector<Residency> choices;
  int most_blocks;
};
std::vector<Class> classes() {
  using R = Residency;
  return {
      {"keep or swap", {true, false, false, 1}, {R::keep, R::swap}, 10},
      {"keep or recompute", {false, true, false, 1}, {R::keep, R::recompute}, 10},
      {"three ways", {true, true, false, 1}, {R::keep, R::swap, R::recompute}, 10},
      {"inputs too", {true, true, true, 1}, {R::keep, R::swap, R::recompute, R::swap_input}, 8},
      {"runs too",
       {true, true, true, 8},
       {R::keep, R::swap, R::recompute, R::swap_input, R::chain},
       7},
  };
}
}  // namespace

TEST_CASE("planner: equals brute force over all plans with the memory rule", "[plan]") {
  std::mt19937 random(11);
  for (const auto& k : classes()) {
    const int rounds = 1000;
    int wrong = 0;
    double worst = 1;
    for (int round = 0; round < rounds; ++round) {
      // Large instances are few: their plans are many.
      const int n = round % 40 == 0
                        ? k.most_blocks
                        : 1 + static_cast<int>(random() % static_cast<unsigned>(k.most_blocks - 2));
      const StepCosts costs = random_costs(random, n);
      const double best = BruteForce(costs, k.choices).seconds();
      double bound = 0;
      const double mine = planned(costs, k.options, &bound);
      if (mine == best) continue;
      if (bound > best * (1 + 1e-9)) ++wrong;
      if (!(mine <= best * (1 + 1e-9) && mine >= best * (1 - 1e-9))) ++wrong;
      worst = std::max(worst, mine / best);
    }
    INFO(k.name << ": worst " << worst);
    CHECK(wrong == 0);
  }
}

TEST_CASE("planner: never slower than any baseline, and near the proven bound", "[plan]") {
  std::mt19937 random(12);
  double worst = 1;
  int far = 0;
  constexpr int rounds = 60;
  for (int round = 0; round < rounds; ++round) {
    const int n = 11 + static_cast<int>(random() % 50);
    const StepCosts costs = random_costs(random, n);
    double bound = 0;
    const double mine = planned(costs, {}, &bound);
    if (mine == std::numeric_limits<double>::infinity()) continue;
    for (const auto& other :
         {keep_all(costs), eager_swap(costs), recompute_all(costs), square_root_checkpoints(costs),
          capacity_swap(costs), profiled_hybrid(costs)}) {
      if (!other) continue;
      INFO(other->method << ", " << n << " blocks");
      CHECK(mine <= other->predicted.seconds * (1 + 1e-9));
    }
    CHECK(bound <= mine * (1 + 1e-9));
    worst = std::max(worst, mine / bound);
    if (mine / bound > 1.03) ++far;
  }
  // The bound itself is below the best plan where large blocks meet little memory.
  INFO("at worst " << worst << " times the bound, " << far << " beyond 1.03");
  CHECK(worst <= 1.06);
  CHECK(10 * far <= rounds);
}

TEST_CASE("planner: a thousand layers", "[plan]") {
  std::mt19937 random(13);
  for (const double part : {0.5, 0.33, 0.17}) {
    StepCosts costs = random_costs(random, 1001);
    costs.budget = static_cast<std::int64_t>(static_cast<double>(costs.saved_bytes()) * part);
    const auto begin = std::chrono::steady_clock::now();
    const MemoryPlan p = plan_memory(costs);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    UNSCOPED_INFO("1001 layers in " << seconds << " s, " << p.predicted.seconds / p.lower_bound
                                    << " times the bound, "
                                    << p.predicted.seconds / costs.in_core_seconds()
                                    << " times in-core");
    CHECK(p.predicted.fits);
  }
}
