// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/step_costs.hpp>

namespace krama::plan {

/// Who waits for whom, so that what is in near memory at any time fits the budget. Positions only,
/// no times: the same whatever the machine does, so an executor can lay out memory by it.
struct SwapRules {
  /// Forward of b starts after the swap-outs of all blocks below `out_before[b]`.
  std::vector<int> out_before;
  /// The swap-in of b starts after the backward of block `in_after[b]`; the number of blocks stands
  /// for the end of the forward pass.
  std::vector<int> in_after;
  /// Last block of the run that is recomputed together with b, which is its first; else b.
  std::vector<int> run_end;
};

/// One piece of work in a predicted step.
struct TimelineEvent {
  enum class Kind : std::uint8_t { forward, recompute, backward, out, in } kind{};
  int block = 0;
  double begin = 0;
  double end = 0;
};

/// Plays one step of one micro-batch:
///  - one compute lane: forward 0 … N-1, backward N-1 … 0, recomputation just before its backward;
///  - one link, used outwards until the last swap-out has ended, then inwards, both in block order;
///  - memory: a block's saved bytes are there from the start of its forward (or swap-in, or
///    recomputation) until the end of its swap-out or backward. Work for which there is no room
///    waits for the oldest swap-outs in the forward pass; the swap-in of a block waits until all
///    blocks whose backward comes before its own have room besides it.
/// Everything starts as early as these rules allow; nothing that is delayed would make anything else
/// earlier, so the result is the best for the given residencies.
class StepSimulator {
 public:
  explicit StepSimulator(const StepCosts& costs);

  /// \pre one residency per block; the first is not `chain`, and before `chain` stands a recomputed one
  Prediction run(const Residencies& what, std::vector<TimelineEvent>* events = nullptr);
  /// The rules of the last `run` that fitted.
  [[nodiscard]] const SwapRules& rules() const { return rules_; }

 private:
  /// Memory as a walk over blocks: what stays, and what is on its way out, oldest first.
  struct Walk {
    std::int64_t kept = 0;
    std::int64_t moving = 0;
    int oldest = 0;  ///< blocks below have left
  };

  [[nodiscard]] const BlockCost& block(int b) const {
    return costs_->blocks[static_cast<std::size_t>(b)];
  }
  [[nodiscard]] std::int64_t moved(Residency r, int b) const {
    return r == Residency::swap ? block(b).saved : r == Residency::swap_input ? block(b).input : 0;
  }
  [[nodiscard]] std::int64_t stays(Residency r, int b) const {
    return r == Residency::keep ? block(b).saved : r == Residency::recompute ? block(b).input : 0;
  }

  /// Makes room for `bytes` at block b; `left(i)` is told which swapped blocks must be gone.
  template <class Left>
  bool make_room(const Residencies& what, Walk& w, int b, std::int64_t bytes, Prediction& p,
                 const Left& left) const {
    while (w.kept + w.moving + bytes > costs_->budget) {
      while (w.oldest < b && !is_swapped(what[static_cast<std::size_t>(w.oldest)])) ++w.oldest;
      if (w.oldest >= b) {
        p.misfit = b;
        p.needed = w.kept + bytes;
        return false;
      }
      w.moving -= moved(what[static_cast<std::size_t>(w.oldest)], w.oldest);
      left(w.oldest++);
    }
    p.needed = std::max(p.needed, w.kept + w.moving + bytes);
    return true;
  }

  bool find_rules(const Residencies& what, Prediction& p);

  void play(const Residencies& what, Prediction& p, std::vector<TimelineEvent>* events);

  const StepCosts* costs_;
  SwapRules rules_;
  std::vector<double> out_end_;
  std::vector<double> done_;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE StepSimulator::StepSimulator(const StepCosts& costs) : costs_(&costs) {
  const auto n = costs.blocks.size();
  rules_.out_before.resize(n);
  rules_.in_after.resize(n);
  rules_.run_end.resize(n);
  out_end_.resize(n);
}

KRAMA_INLINE Prediction StepSimulator::run(const Residencies& what,
                                           std::vector<TimelineEvent>* events) {
  Prediction p;
  if (!find_rules(what, p)) return p;
  p.fits = true;
  play(what, p, events);
  return p;
}

KRAMA_INLINE bool StepSimulator::find_rules(const Residencies& what, Prediction& p) {
  const int n = costs_->count();
  KRAMA_EXPECTS(static_cast<int>(what.size()) == n, "{} residencies for {} blocks", what.size(), n);
  for (int b = n - 1, end = n - 1; b >= 0; --b) {
    const auto k = static_cast<std::size_t>(b);
    rules_.run_end[k] = end;
    if (what[k] != Residency::chain) {
      end = b - 1;
      continue;
    }
    KRAMA_EXPECTS(b > 0 && is_recomputed(what[k - 1]),
                  "block {} is to be recomputed with the one before, which is not recomputed", b);
  }
  std::fill(rules_.in_after.begin(), rules_.in_after.end(), n);
  Walk f;
  for (int b = 0; b < n; ++b) {
    const auto k = static_cast<std::size_t>(b);
    if (!make_room(what, f, b, block(b).saved, p, [](int) {})) return false;
    rules_.out_before[k] = f.oldest;
    f.kept += stays(what[k], b);
    f.moving += moved(what[k], b);
  }
  // Backward in reversed time is a forward pass: what leaves there is what comes in here.
  Walk r;
  for (int b = 0; b < n; b = rules_.run_end[static_cast<std::size_t>(b)] + 1) {
    const auto k = static_cast<std::size_t>(b);
    std::int64_t bytes = 0;
    for (int i = b; i <= rules_.run_end[k]; ++i) bytes += block(i).saved;
    const auto left = [&](int i) { rules_.in_after[static_cast<std::size_t>(i)] = b; };
    if (!make_room(what, r, b, bytes, p, left)) return false;
    r.kept += stays(what[k], b);
    r.moving += moved(what[k], b);
  }
  return true;
}

KRAMA_INLINE void StepSimulator::play(const Residencies& what, Prediction& p,
                                      std::vector<TimelineEvent>* events) {
  using Kind = TimelineEvent::Kind;
  const int n = costs_->count();
  const auto note = [&](Kind kind, int b, double begin, double end) {
    if (events != nullptr) events->push_back({kind, b, begin, end});
  };
  double now = 0;
  double link = 0;
  int waited = 0;
  const auto compute = [&](Kind kind, int b, double seconds) {
    note(kind, b, now, now + seconds);
    now += seconds;
    p.compute += seconds;
  };
  for (int b = 0; b < n; ++b) {
    const auto k = static_cast<std::size_t>(b);
    for (; waited < rules_.out_before[k]; ++waited) {
      if (is_swapped(what[static_cast<std::size_t>(waited)])) {
        now = std::max(now, out_end_[static_cast<std::size_t>(waited)]);
      }
    }
    compute(Kind::forward, b, block(b).forward);
    if (!is_swapped(what[k])) continue;
    const double begin = std::max(now, link);
    link = out_end_[k] = begin + costs_->link.out(moved(what[k], b));
    note(Kind::out, b, begin, link);
  }
  link = std::max(link, now);
  // When the backward of each block has ended; entry n: the turn.
  done_.assign(static_cast<std::size_t>(n) + 1, now);
  for (int last = n - 1; last >= 0;) {
    int first = last;
    while (what[static_cast<std::size_t>(first)] == Residency::chain) --first;
    const auto k = static_cast<std::size_t>(first);
    if (is_swapped(what[k])) {
      const double begin = std::max(link, done_[static_cast<std::size_t>(rules_.in_after[k])]);
      link = begin + costs_->link.in(moved(what[k], first));
      note(Kind::in, first, begin, link);
      now = std::max(now, link);
    }
    for (int b = first; b <= last && is_recomputed(what[k]); ++b) {
      compute(Kind::recompute, b, block(b).forward);
      p.recompute += block(b).forward;
    }
    for (int b = last; b >= first; --b) {
      compute(Kind::backward, b, block(b).backward);
      done_[static_cast<std::size_t>(b)] = now;
    }
    last = first - 1;
  }
  p.seconds = now;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
