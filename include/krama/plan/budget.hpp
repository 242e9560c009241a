// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/memory_planner.hpp>
#include <krama/plan/offload.hpp>
#include <krama/plan/plain.hpp>
#include <krama/plan/step_memory.hpp>

namespace krama::plan {

/// The bytes of every block, as planners count them; times are zero.
StepCosts byte_costs(const StepSizes& sizes);

/// A plan with the places that it gives everything.
struct PlacedPlan {
  MemoryPlan plan;
  Offload offload;
  StepMemory memory;
};

/// Some planner of plan/: a plan for the costs, or nothing.
using Planner = std::function<std::optional<MemoryPlan>(const StepCosts&)>;

PlacedPlan place_plan(const StepCosts& costs, const StepSizes& sizes, MemoryPlan plan);

/// Plans that need little: every block treated alike, each with the least memory for saved values
/// with which it works.
std::vector<PlacedPlan> least_plans(const StepCosts& costs, const StepSizes& sizes);

/// The smallest budget that `plan_within` is sure to find a plan for.
std::int64_t smallest_step_budget(const StepSizes& sizes);

/// Plans within `budget` bytes for everything that a step computes: saved values and, beside them,
/// gradients, scratch memory and values on their way. What the latter take depends on the plan, so
/// plans are made for less and less memory until one fits with all its places. Nothing where none
/// does.
std::optional<PlacedPlan> plan_within(StepCosts costs, const StepSizes& sizes, std::int64_t budget,
                                      const Planner& planner);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE StepCosts byte_costs(const StepSizes& sizes) {
  StepCosts costs;
  for (int b = 0; b < static_cast<int>(sizes.blocks.size()); ++b) {
    const auto& block = sizes.blocks[static_cast<std::size_t>(b)];
    BlockCost c;
    for (const int v : sizes.travels_with(b)) {
      c.input += sizes.values[static_cast<std::size_t>(v)].bytes;
    }
    c.saved = block.stash + c.input;
    // Recomputation keeps an input that backward alone would not have kept.
    if (!block.reads_input) {
      for (const int v : block.reads) c.input += sizes.values[static_cast<std::size_t>(v)].bytes;
      c.input = std::min(c.input, c.saved);
    }
    costs.blocks.push_back(c);
  }
  return costs;
}

KRAMA_INLINE PlacedPlan place_plan(const StepCosts& costs, const StepSizes& sizes,
                                   MemoryPlan plan) {
  Offload offload = Offload::of(costs, plan.what);
  StepMemory memory = plan_step_memory(
      with_offload(plain_step(static_cast<int>(sizes.blocks.size()), 1, 0), offload), sizes);
  return {std::move(plan), std::move(offload), std::move(memory)};
}

KRAMA_INLINE std::vector<PlacedPlan> least_plans(const StepCosts& costs, const StepSizes& sizes) {
  std::vector<PlacedPlan> all;
  for (const Residency r :
       {Residency::keep, Residency::recompute, Residency::swap, Residency::swap_input}) {
    MemoryPlan plan;
    plan.method = name_of(r);
    plan.what.assign(costs.blocks.size(), r);
    StepCosts least = costs;
    least.budget = 0;
    for (plan.predicted = StepSimulator(least).run(plan.what); !plan.predicted.fits;) {
      least.budget = plan.predicted.needed;
      plan.predicted = StepSimulator(least).run(plan.what);
    }
    all.push_back(place_plan(least, sizes, std::move(plan)));
  }
  return all;
}

KRAMA_INLINE std::int64_t smallest_step_budget(const StepSizes& sizes) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const auto& p : least_plans(byte_costs(sizes), sizes)) {
    smallest = std::min(smallest, p.memory.peak);
  }
  return smallest;
}

KRAMA_INLINE std::optional<PlacedPlan> plan_within(StepCosts costs, const StepSizes& sizes,
                                                   std::int64_t budget, const Planner& planner) {
  std::optional<PlacedPlan> best;
  const auto consider = [&](PlacedPlan&& placed) {
    if (placed.memory.peak > budget) return;
    if (best && best->plan.predicted.seconds <= placed.plan.predicted.seconds) return;
    best = std::move(placed);
  };
  for (auto& placed : least_plans(costs, sizes)) consider(std::move(placed));
  std::int64_t too_much = std::numeric_limits<std::int64_t>::max();
  std::int64_t room = budget;
  for (int attempt = 0; attempt < 10 && room > 0; ++attempt) {
    costs.budget = room;
    auto plan = planner(costs);
    if (!plan) break;
    PlacedPlan placed = place_plan(costs, sizes, std::move(*plan));
    const std::int64_t over = placed.memory.peak - budget;
    consider(std::move(placed));
    if (over > 0) {
      too_much = room;
      room -= std::max(over, budget / 256 + 1);
      continue;
    }
    // Was that too careful? Half of what is left, while it is worth the trouble.
    const std::int64_t more = std::min(-over, too_much - room) / 2;
    if (more <= budget / 64) break;
    room += more;
  }
  return best;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
