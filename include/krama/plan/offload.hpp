// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/program.hpp>
#include <krama/plan/step_costs.hpp>
#include <krama/plan/timeline.hpp>

namespace krama::plan {

/// A memory plan that an executor can follow: what becomes of each block, and who waits for whom.
struct Offload {
  Residencies what;  ///< empty: everything is kept
  SwapRules rules;

  /// \pre the plan fits `costs.budget`
  static Offload of(const StepCosts& costs, Residencies residencies);
  [[nodiscard]] bool swaps() const {
    return std::any_of(what.begin(), what.end(), [](Residency r) { return is_swapped(r); });
  }
};

/// The same step with blocks swapped and recomputed. Transfers are begun in the order in which one
/// link does them: all swap-outs of a micro-batch, then its swap-ins, from the last block. Gives the
/// same bits as the plain step.
Program with_offload(const Program& program, const Offload& plan);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE Offload Offload::of(const StepCosts& costs, Residencies residencies) {
  StepSimulator simulator(costs);
  const Prediction p = simulator.run(residencies);
  KRAMA_EXPECTS(p.fits, "the plan does not fit: block {} needs {} bytes, {} are available",
                p.misfit, p.needed, costs.budget);
  return {std::move(residencies), simulator.rules()};
}

KRAMA_INLINE Program with_offload(const Program& program, const Offload& plan) {
  if (plan.what.empty()) return program;
  const int n = static_cast<int>(plan.what.size());
  const auto what = [&](int b) { return plan.what[static_cast<std::size_t>(b)]; };
  Program out;
  int micro = -1;
  int waited = 0;  // swap-outs below this block have been waited for
  const auto await_out = [&](int below) {
    for (; waited < below; ++waited) {
      if (is_swapped(what(waited))) out.push_back({Op::await_out, waited, micro});
    }
  };
  const auto swap_in_after = [&](int b) {
    for (int i = n - 1; i >= 0; --i) {
      if (is_swapped(what(i)) && plan.rules.in_after[static_cast<std::size_t>(i)] == b) {
        out.push_back({Op::swap_in, i, micro});
      }
    }
  };
  for (const auto& i : program) {
    const bool forward = i.op == Op::forward;
    const bool backward = i.op == Op::backward;
    KRAMA_EXPECTS(i.op != Op::recompute, "with_offload: block {} is recomputed already", i.index);
    if (!forward && !backward) {
      out.push_back(i);
      continue;
    }
    const int b = i.index;
    KRAMA_EXPECTS(b >= 0 && b < n, "with_offload: block {} has no entry among {}", b, n);
    if (i.micro != micro) {
      micro = i.micro;
      waited = 0;
    }
    if (forward) {
      await_out(plan.rules.out_before[static_cast<std::size_t>(b)]);
      out.push_back(i);
      if (is_swapped(what(b))) out.push_back({Op::swap_out, b, micro});
      if (b == n - 1) swap_in_after(n);
      continue;
    }
    // A run that is recomputed together starts with the backward of its last block.
    int first = b;
    while (what(first) == Residency::chain) --first;
    const int last = plan.rules.run_end[static_cast<std::size_t>(first)];
    if (b == last) {
      if (is_swapped(what(first))) {
        await_out(n);  // costs nothing: the link has done them all before the first swap-in
        out.push_back({Op::await_in, first, micro});
      }
      for (int r = first; r <= last && is_recomputed(what(first)); ++r) {
        out.push_back({Op::recompute, r, micro});
      }
    }
    out.push_back(i);
    swap_in_after(b);
  }
  return out;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
