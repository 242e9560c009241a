// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <krama/definitions.hpp>
#include <krama/plan/budget.hpp>
#include <krama/program/profile.hpp>
#include <krama/train/together.hpp>

namespace krama::train {

/// A memory plan for people: a row for each run of blocks that are treated alike, a picture of the
/// step from first to last block, and what the plan is expected to cost.
template <Device D, Scalar T>
std::string describe(const nn::Model<D, T>& model, const plan::StepCosts& costs,
                     const plan::PlacedPlan& placed, std::int64_t budget) {
  const auto& what = placed.plan.what;
  const auto& p = placed.plan.predicted;
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; };
  std::string text = fmt::format("{:<36} {:>10} {:>12} {:>12} {:>12}\n", "blocks", "saved MiB",
                                 "forward ms", "backward ms", "decision");
  std::string picture;
  for (std::size_t b = 0; b < what.size();) {
    std::size_t end = b;
    double forward = 0;
    double backward = 0;
    std::int64_t saved = 0;
    for (; end < what.size() && what[end] == what[b]; ++end) {
      forward += costs.blocks[end].forward;
      backward += costs.blocks[end].backward;
      saved += costs.blocks[end].saved;
      picture += "ksric"[static_cast<std::size_t>(what[end])];
    }
    std::string names = model.block_name(static_cast<int>(b));
    if (end > b + 1) names += " to " + model.block_name(static_cast<int>(end) - 1);
    text += fmt::format("{:<36} {:>10.2f} {:>12.3f} {:>12.3f} {}\n", names, mib(saved),
                        forward * 1e3, backward * 1e3, name_of(what[b]));
    b = end;
  }
  text += fmt::format(
      "[{}]  k keep, s swap, r recompute, i swap the input and recompute, c recompute along\n"
      "a micro-batch: {:.3f} ms ({:.3f} if all were kept; stalls {:.3f}, recomputation {:.3f}), at "
      "most {:.1f} % from the best plan\n"
      "memory: {:.2f} of {:.2f} MiB; link: {:.3g} us + {:.3g} GB/s out, {:.3g} GB/s in\n",
      picture, p.seconds * 1e3, costs.in_core_seconds() * 1e3, p.stall() * 1e3, p.recompute * 1e3,
      placed.plan.lower_bound > 0 ? (p.seconds / placed.plan.lower_bound - 1) * 100 : 0.0,
      mib(placed.memory.peak), mib(budget), costs.link.latency * 1e6,
      costs.link.out_bandwidth * 1e-9, costs.link.in_bandwidth * 1e-9);
  return text;
}

namespace detail {

std::optional<plan::MemoryPlan> best_plan(const plan::StepCosts& costs);

}  // namespace detail

/// Makes an executor train within `budget` bytes (this rank's) for everything that a step computes:
/// takes a first plan from sizes alone, measures some steps under it (`run` makes gradients and
/// updates nothing), and plans again with what was measured. Every rank has its own budget and plan.
/// Collective over comm.
/// \return the plan in words
/// \throws plan::DoesNotFit before anything is run when no plan fits, on all ranks
template <Device D, Scalar T, class Loss, class Optimizer, class Comm, class Run>
std::string train_within(const exec_of<D>& exec, Executor<D, T, Loss, Optimizer, Comm>& executor,
                         Comm& comm, std::int64_t budget, const Run& run) {
  const plan::StepSizes sizes = executor.sizes();
  std::optional<plan::PlacedPlan> placed;
  together_or_not(comm, "memory plan by size", [&] {
    plan::StepCosts guess = plan::byte_costs(sizes);
    for (auto& b : guess.blocks) {
      b.forward = 1;
      b.backward = 2;
    }
    placed = plan::plan_within(guess, sizes, budget, detail::best_plan);
    if (!placed) {
      const std::int64_t keep =
          plan::plan_step_memory(plan::plain_step(executor.model().block_count(), 1, 0), sizes)
              .peak;
      throw plan::DoesNotFit("a step of this model", keep, budget,
                             plan::smallest_step_budget(sizes));
    }
    executor.adopt(placed->offload);
  });
  plan::StepCosts costs = measure_blocks(executor, run);
  std::string text;
  together_or_not(comm, "memory plan", [&] {
    costs.link = measure_link(exec, executor);
    // A rank without samples has nothing to plan for.
    if (costs.in_core_seconds() <= 0) return;
    auto measured = plan::plan_within(costs, sizes, budget, detail::best_plan);
    if (measured) {
      placed = std::move(measured);
      executor.adopt(placed->offload);
    }
    text = describe(executor.model(), costs, *placed, budget);
  });
  return text;
}

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train::detail {

KRAMA_INLINE std::optional<plan::MemoryPlan> best_plan(const plan::StepCosts& costs) {
  try {
    return plan::plan_memory(costs);
  } catch (const plan::DoesNotFit&) {
    return std::nullopt;
  }
}

}  // namespace krama::train::detail

#endif  // KRAMA_DEFINITIONS
