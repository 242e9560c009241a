// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/lower_bound.hpp>
#include <krama/plan/partial_plan.hpp>
#include <krama/plan/step_costs.hpp>
#include <krama/plan/timeline.hpp>

namespace krama::plan {

/// Which decisions a planner may make, and how hard it tries.
struct PlannerOptions {
  bool swap = true;
  bool recompute = true;
  bool swap_input = true;
  int longest_run = 4;    ///< blocks that may be recomputed together; 1: each from its own input
  std::size_t width = 0;  ///< unfinished plans kept per block; 0: by the number of blocks
};

struct MemoryPlan {
  std::string method;
  Residencies what;
  Prediction predicted;
  double lower_bound = 0;  ///< seconds that no plan of the same class can beat
};

/// No plan of a class fits the budget.
class DoesNotFit : public Error {
 public:
  DoesNotFit(const std::string& what, std::int64_t needed, std::int64_t available,
             std::int64_t smallest);
  [[nodiscard]] std::int64_t needed() const noexcept { return needed_; }
  [[nodiscard]] std::int64_t smallest() const noexcept { return smallest_; }

 private:
  std::int64_t needed_, smallest_;
};

/// The smallest budget for which some plan of the class exists. Swapping everything needs one block
/// at a time; recomputing everything the inputs before a block besides it.
std::int64_t smallest_budget(const StepCosts& costs, const PlannerOptions& o);

namespace detail {

/// Improves a plan by single changes until none helps, at most `rounds` times over all blocks.
void polish(const PlannerOptions& o, StepSimulator& simulator, Residencies& what, Prediction& best,
            int rounds);

/// The dynamic programme over Pareto states. Exact while no level holds more plans than `width`.
class ParetoSearch {
 public:
  ParetoSearch(const StepCosts& costs, const PlannerOptions& options);

  /// Looks for a plan faster than `best`, and replaces it. \return a proven lower bound
  double run(Residencies& what, double& best);

 private:
  void branch(int b, int parent, double best);

  /// Drops what cannot win, then what is dominated, then, beyond the width, what promises least;
  /// the least that was promised there is what remains proven.
  void thin_out(std::vector<PartialPlan>& level, double best, double& proven) const;

  /// Plans that keep much and plans that keep little are good for different ends.
  [[nodiscard]] std::size_t part_of(const PartialPlan& s) const;

  [[nodiscard]] Residencies trace_back(int n, int s) const;

  static constexpr std::size_t parts = 16;
  const StepCosts* costs_;
  PlannerOptions o_;
  LowerBound bound_;
  std::vector<std::vector<PartialPlan>> levels_;
};

}  // namespace detail

/// The fastest plan within the budget. Starts from the best plan of a few plain shapes, improves that
/// by single changes, and searches the rest by dynamic programming. `lower_bound` equals the
/// predicted time where the plan is proven to be the best of its class.
/// \throws DoesNotFit when nothing fits
MemoryPlan plan_memory(const StepCosts& costs, PlannerOptions options = {});

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE DoesNotFit::DoesNotFit(const std::string& what, std::int64_t needed,
                                    std::int64_t available, std::int64_t smallest)
    : Error(fmt::format(
          "the memory budget is too small for {}: {} bytes are needed, {} are available; the "
          "smallest budget that would work is {} bytes for saved values (smaller micro-batches "
          "need less)",
          what, needed, available, smallest)),
      needed_(needed),
      smallest_(smallest) {}

KRAMA_INLINE std::int64_t smallest_budget(const StepCosts& costs, const PlannerOptions& o) {
  std::int64_t most = 0;
  std::int64_t inputs = 0;
  std::int64_t all = 0;
  for (const auto& b : costs.blocks) {
    most = std::max(most, b.saved + inputs);
    all += b.saved;
    if (o.recompute && !o.swap && !o.swap_input) inputs += b.input;
  }
  return o.swap || o.recompute ? most : all;
}

}  // namespace krama::plan

namespace krama::plan::detail {

KRAMA_INLINE void polish(const PlannerOptions& o, StepSimulator& simulator, Residencies& what,
                         Prediction& best, int rounds) {
  for (bool better = true; better && rounds > 0; --rounds) {
    better = false;
    for (std::size_t b = 0; b < what.size(); ++b) {
      // A run is not taken apart here.
      if (what[b] == Residency::chain) continue;
      const bool heads_run = b + 1 < what.size() && what[b + 1] == Residency::chain;
      const Residency before = what[b];
      Residency chosen = before;
      for (const Residency r :
           {Residency::keep, Residency::swap, Residency::recompute, Residency::swap_input}) {
        if (r == before || (r == Residency::swap && !o.swap) ||
            (r == Residency::recompute && !o.recompute) ||
            (r == Residency::swap_input && !(o.swap_input && o.recompute)) ||
            (heads_run && !is_recomputed(r))) {
          continue;
        }
        what[b] = r;
        const Prediction p = simulator.run(what);
        if (p.fits && p.seconds < best.seconds * (1 - 1e-12)) {
          best = p;
          chosen = r;
          better = true;
        }
      }
      what[b] = chosen;
    }
  }
  best = simulator.run(what);
}

KRAMA_INLINE ParetoSearch::ParetoSearch(const StepCosts& costs, const PlannerOptions& options)
    : costs_(&costs),
      o_(options),
      bound_(costs, options.swap || (options.recompute && options.swap_input), options.recompute,
             options.swap_input || options.longest_run > 1) {}

KRAMA_INLINE double ParetoSearch::run(Residencies& what, double& best) {
  const int n = costs_->count();
  levels_.assign(static_cast<std::size_t>(n) + 1, {});
  levels_[0].push_back({});
  double proven = std::numeric_limits<double>::infinity();
  for (int b = 0; b < n; ++b) {
    thin_out(levels_[static_cast<std::size_t>(b)], best, proven);
    const int states = static_cast<int>(levels_[static_cast<std::size_t>(b)].size());
    for (int s = 0; s < states; ++s) branch(b, s, best);
    for (auto& s : levels_[static_cast<std::size_t>(b)]) s.in = s.out = {};
  }
  auto& last = levels_[static_cast<std::size_t>(n)];
  int found = -1;
  for (int s = 0; s < static_cast<int>(last.size()); ++s) {
    const double seconds = last[static_cast<std::size_t>(s)].seconds();
    if (seconds >= best) continue;
    best = seconds;
    found = s;
  }
  if (found >= 0) what = trace_back(n, found);
  return std::max(bound_.whole(), std::min(best, proven));
}

KRAMA_INLINE void ParetoSearch::branch(int b, int parent, double best) {
  const auto try_one = [&](int blocks, Residency r) {
    // The level may grow (and move) only at b + blocks, so the parent stays valid.
    PartialPlan child = levels_[static_cast<std::size_t>(b)][static_cast<std::size_t>(parent)];
    if (!child.extend(*costs_, b, blocks, r)) return;
    child.bound = std::max(child.seconds(), bound_.at(b + blocks, child));
    if (child.bound >= best) return;
    child.parent = parent;
    levels_[static_cast<std::size_t>(b + blocks)].push_back(std::move(child));
  };
  try_one(1, Residency::keep);
  if (o_.swap) try_one(1, Residency::swap);
  for (int run = 1; o_.recompute && run <= o_.longest_run && b + run <= costs_->count(); ++run) {
    try_one(run, Residency::recompute);
    if (o_.swap_input) try_one(run, Residency::swap_input);
  }
}

KRAMA_INLINE void ParetoSearch::thin_out(std::vector<PartialPlan>& level, double best,
                                         double& proven) const {
  std::erase_if(level, [&](const PartialPlan& s) { return s.bound >= best; });
  std::sort(level.begin(), level.end(), [](const PartialPlan& a, const PartialPlan& b) {
    return a.bound != b.bound ? a.bound < b.bound : a.cost() < b.cost();
  });
  // Plans are compared with some others only: missing a dominated one costs time, not truth.
  constexpr std::size_t compared = 48;
  std::vector<PartialPlan> kept;
  std::vector<std::size_t> of_part(parts, 0);
  const auto quota = std::max<std::size_t>(1, o_.width / parts);
  for (auto& s : level) {
    const std::size_t from = kept.size() > compared ? kept.size() - compared : 0;
    bool dominated = false;
    for (std::size_t i = kept.size(); i-- > from && !dominated;) dominated = kept[i].dominates(s);
    for (std::size_t i = 0; i < std::min(from, compared) && !dominated; ++i) {
      dominated = kept[i].dominates(s);
    }
    if (dominated) continue;
    // Half of the room is for the most promising ones, half shared out by the memory that they keep.
    auto& mine = of_part[part_of(s)];
    if (kept.size() >= o_.width / 2 && mine >= quota) {
      proven = std::min(proven, s.bound);
      continue;
    }
    ++mine;
    kept.push_back(std::move(s));
    kept.back().in.compact();
    kept.back().out.compact();
  }
  level = std::move(kept);
}

KRAMA_INLINE std::size_t ParetoSearch::part_of(const PartialPlan& s) const {
  const double filled =
      static_cast<double>(s.kept) / static_cast<double>(std::max<std::int64_t>(costs_->budget, 1));
  return std::min(parts - 1, static_cast<std::size_t>(filled * static_cast<double>(parts)));
}

KRAMA_INLINE Residencies ParetoSearch::trace_back(int n, int s) const {
  Residencies what(static_cast<std::size_t>(n));
  while (n > 0) {
    const auto& p = levels_[static_cast<std::size_t>(n)][static_cast<std::size_t>(s)];
    const int first = n - p.length;
    what[static_cast<std::size_t>(first)] = p.what;
    for (int b = first + 1; b < n; ++b) what[static_cast<std::size_t>(b)] = Residency::chain;
    s = p.parent;
    n = first;
  }
  return what;
}

}  // namespace krama::plan::detail

namespace krama::plan {

KRAMA_INLINE MemoryPlan plan_memory(const StepCosts& costs, PlannerOptions options) {
  const int n = costs.count();
  if (options.width == 0) {
    options.width = n <= 16 ? 20000 : static_cast<std::size_t>(std::clamp(30000 / n, 24, 2000));
  }
  StepSimulator simulator(costs);
  MemoryPlan plan;
  plan.method = "planner";
  const auto consider = [&](const Residencies& what) {
    const Prediction p = simulator.run(what);
    if (p.fits && (plan.what.empty() || p.seconds < plan.predicted.seconds)) {
      plan.what = what;
      plan.predicted = p;
    }
    return p;
  };
  const auto size = static_cast<std::size_t>(n);
  std::int64_t needed = consider(Residencies(size, Residency::keep)).needed;
  // A prefix is displaced, the rest is kept: the shorter the prefix the better, while it fits.
  for (const Residency r : {Residency::swap, Residency::recompute, Residency::swap_input}) {
    if ((r == Residency::swap && !options.swap) ||
        (r == Residency::recompute && !options.recompute) ||
        (r == Residency::swap_input && !(options.recompute && options.swap_input))) {
      continue;
    }
    Residencies what(size, Residency::keep);
    const std::size_t stride = std::max<std::size_t>(1, size / 64);
    for (std::size_t b = 0; b < size; ++b) {
      what[b] = r;
      if ((b + 1) % stride == 0 || b + 1 == size) needed = std::min(needed, consider(what).needed);
    }
  }
  double best = std::numeric_limits<double>::infinity();
  if (!plan.what.empty()) {
    detail::polish(options, simulator, plan.what, plan.predicted, n > 200 ? 2 : 8);
    best = plan.predicted.seconds;
  }
  plan.lower_bound = detail::ParetoSearch(costs, options).run(plan.what, best);
  if (plan.what.empty()) {
    throw DoesNotFit("the model", std::max(needed, smallest_budget(costs, options)), costs.budget,
                     smallest_budget(costs, options));
  }
  plan.predicted = simulator.run(plan.what);
  if (plan.lower_bound < plan.predicted.seconds * (1 - 1e-9)) {
    detail::polish(options, simulator, plan.what, plan.predicted, n > 200 ? 2 : 8);
  }
  return plan;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
