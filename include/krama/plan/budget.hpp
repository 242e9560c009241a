// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <krama/plan/memory_planner.hpp>
#include <krama/plan/offload.hpp>
#include <krama/plan/plain.hpp>
#include <krama/plan/step_memory.hpp>

namespace krama::plan {

/// The bytes of every block, as planners count them; times are zero.
inline StepCosts byte_costs(const StepSizes& sizes) {
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

/// A plan with the places that it gives everything.
struct PlacedPlan {
  MemoryPlan plan;
  Offload offload;
  StepMemory memory;
};

/// Some planner of plan/: a plan for the costs, or nothing.
using Planner = std::function<std::optional<MemoryPlan>(const StepCosts&)>;

inline PlacedPlan place_plan(const StepCosts& costs, const StepSizes& sizes, MemoryPlan plan) {
  Offload offload = Offload::of(costs, plan.what);
  StepMemory memory = plan_step_memory(
      with_offload(plain_step(static_cast<int>(sizes.blocks.size()), 1, 0), offload), sizes);
  return {std::move(plan), std::move(offload), std::move(memory)};
}

/// Plans within `budget` bytes for everything that a step computes: saved values and, beside them,
/// gradients, scratch memory and values on their way. What the latter take depends on the plan, so
/// plans are made for less and less until one with all its places fits. Nothing where none does.
inline std::optional<PlacedPlan> plan_within(StepCosts costs, const StepSizes& sizes,
                                             std::int64_t budget, const Planner& planner) {
  std::optional<PlacedPlan> best;
  std::int64_t room = budget;
  std::int64_t fits = 0;
  for (int attempt = 0; attempt < 12 && room > 0; ++attempt) {
    costs.budget = room;
    auto plan = planner(costs);
    if (!plan) break;
    PlacedPlan placed = place_plan(costs, sizes, std::move(*plan));
    const std::int64_t over = placed.memory.peak - budget;
    if (over <= 0) {
      if (!best || placed.plan.predicted.seconds < best->plan.predicted.seconds) {
        best = std::move(placed);
      }
      // Too careful? Try half of what is left.
      fits = room;
      if (-over < budget / 32 || attempt == 0) break;
      room += -over / 2;
    } else if (fits > 0) {
      break;
    } else {
      room -= std::max(over, budget / 256);
    }
  }
  return best;
}

/// The smallest budget in which everything fits that a step computes, by any plan of the two simplest
/// shapes; what a refusal names.
inline std::int64_t smallest_step_budget(const StepSizes& sizes) {
  StepCosts costs = byte_costs(sizes);
  costs.budget = std::numeric_limits<std::int64_t>::max() / 4;
  std::int64_t smallest = costs.budget;
  for (const Residency r : {Residency::keep, Residency::recompute, Residency::swap,
                            Residency::swap_input}) {
    const Residencies what(costs.blocks.size(), r);
    // The least that the class needs, so that every transfer is waited for as early as possible.
    StepCosts least = costs;
    least.budget = 0;
    for (int i = 0; i < static_cast<int>(what.size()) + 2; ++i) {
      const Prediction p = StepSimulator(least).run(what);
      if (p.fits) break;
      least.budget = p.needed;
    }
    MemoryPlan plan;
    plan.what = what;
    smallest = std::min(smallest, place_plan(least, sizes, std::move(plan)).memory.peak);
  }
  return smallest;
}

}  // namespace krama::plan
