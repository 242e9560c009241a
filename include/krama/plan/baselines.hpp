// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/memory_planner.hpp>

/// What others do, as plans for the same executor: each the best of its class. Nothing where no plan
/// of the class fits.
namespace krama::plan {

namespace detail {
std::optional<MemoryPlan> plan_of(const StepCosts& costs, std::string method, Residencies what);
void take_better(std::optional<MemoryPlan>& best, std::optional<MemoryPlan> other);
}  // namespace detail

inline std::optional<MemoryPlan> keep_all(const StepCosts& costs) {
  return detail::plan_of(costs, "keep all", Residencies(costs.blocks.size(), Residency::keep));
}

/// Every block's values go out after forward and come back before backward, as early as there is
/// room (vDNN's policy; looking further ahead than it does).
inline std::optional<MemoryPlan> eager_swap(const StepCosts& costs) {
  return detail::plan_of(costs, "eager swap", Residencies(costs.blocks.size(), Residency::swap));
}

std::optional<MemoryPlan> recompute_all(const StepCosts& costs);

/// Segments of equal length; only their first inputs stay, and a segment is recomputed as a whole
/// (Chen et al. 2016). The best length instead of the square root.
std::optional<MemoryPlan> square_root_checkpoints(const StepCosts& costs);

/// The first blocks are swapped, the last ones stay, as many as fit.
std::optional<MemoryPlan> capacity_swap(const StepCosts& costs);

/// A three-way hybrid by profile, after PoocH (Ito, Matsumiya and Endo 2019): from everything
/// swapped, blocks are kept where the simulator says that it helps most, then swapped ones are
/// recomputed where that helps most; each time the change with the largest gain per byte or at all.
std::optional<MemoryPlan> profiled_hybrid(const StepCosts& costs);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan::detail {

KRAMA_INLINE std::optional<MemoryPlan> plan_of(const StepCosts& costs, std::string method,
                                               Residencies what) {
  MemoryPlan p{std::move(method), std::move(what), {}, 0};
  p.predicted = StepSimulator(costs).run(p.what);
  if (!p.predicted.fits) return std::nullopt;
  return p;
}

KRAMA_INLINE void take_better(std::optional<MemoryPlan>& best, std::optional<MemoryPlan> other) {
  if (other && (!best || other->predicted.seconds < best->predicted.seconds))
    best = std::move(other);
}

}  // namespace krama::plan::detail

namespace krama::plan {

KRAMA_INLINE std::optional<MemoryPlan> recompute_all(const StepCosts& costs) {
  return detail::plan_of(costs, "recompute all",
                         Residencies(costs.blocks.size(), Residency::recompute));
}

KRAMA_INLINE std::optional<MemoryPlan> square_root_checkpoints(const StepCosts& costs) {
  std::optional<MemoryPlan> best;
  const auto n = costs.blocks.size();
  for (std::size_t length = 1; length <= n; ++length) {
    for (const bool keeps_last : {false, true}) {
      Residencies what(n, Residency::chain);
      for (std::size_t b = 0; b < n; b += length) {
        what[b] = Residency::recompute;
        if (keeps_last && b + length >= n) {
          std::fill(what.begin() + static_cast<std::ptrdiff_t>(b), what.end(), Residency::keep);
        }
      }
      detail::take_better(best, detail::plan_of(costs, "square-root checkpoints", what));
    }
  }
  return best;
}

KRAMA_INLINE std::optional<MemoryPlan> capacity_swap(const StepCosts& costs) {
  std::optional<MemoryPlan> best;
  Residencies what(costs.blocks.size(), Residency::keep);
  detail::take_better(best, detail::plan_of(costs, "capacity swap", what));
  for (auto& r : what) {
    r = Residency::swap;
    detail::take_better(best, detail::plan_of(costs, "capacity swap", what));
  }
  return best;
}

KRAMA_INLINE std::optional<MemoryPlan> profiled_hybrid(const StepCosts& costs) {
  StepSimulator simulator(costs);
  Residencies what(costs.blocks.size(), Residency::swap);
  Prediction now = simulator.run(what);
  if (!now.fits) return std::nullopt;
  for (const Residency to : {Residency::keep, Residency::recompute, Residency::keep}) {
    // The changes are tried from the last block: its swap-in is the least hidden one.
    for (bool better = true; better;) {
      better = false;
      for (auto b = what.size(); b-- > 0;) {
        if (what[b] == to) continue;
        const Residency before = std::exchange(what[b], to);
        const Prediction p = simulator.run(what);
        if (p.fits && p.seconds < now.seconds * (1 - 1e-12)) {
          now = p;
          better = true;
        } else {
          what[b] = before;
        }
      }
    }
  }
  return detail::plan_of(costs, "profiled hybrid", what);
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
