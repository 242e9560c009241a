// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/partial_plan.hpp>
#include <krama/plan/step_costs.hpp>

namespace krama::plan {

/// A time that no plan can beat, from a linear programme. A step takes at least F + B, where
///  - F, the forward pass, takes at least sum f, and at least the transfers of whatever has gone out
///    by its end: F >= sum u_b out_b;
///  - B, the backward pass, takes at least sum g + sum z_b f_b (z: recomputed), and at least the
///    transfers of whatever still has to come in: B >= sum v_b in_b;
///  - at the turn both what is still there and what is there already must fit:
///    sum (u_b A_b + z_b dropped_b) >= D and sum (v_b A_b + z_b dropped_b) >= D, D = sum A - budget,
///    over all blocks but the last, which is in use then.
/// Weak duality: with weights mu in [0,1] for the two ways to bound F and B, and nu >= 0 for memory,
///   T >= mu_f sum f + mu_b sum g + (nu_f + nu_b) D + sum_b min(0, mu_b f_b - (nu_f+nu_b) dropped_b,
///        min(0, (1-mu_f) out_b - nu_f A_b) + min(0, (1-mu_b) in_b - nu_b A_b)).
/// Kept for every suffix of the blocks, the same sums bound what an unfinished plan can become.
class LowerBound {
 public:
  /// `drops_input`: plans may displace the input of a recomputed block too.
  LowerBound(const StepCosts& costs, bool may_swap, bool may_recompute, bool drops_input);

  /// Of an unfinished plan in which the blocks from `first` on are open.
  [[nodiscard]] double at(int first, const PartialPlan& p) const;
  [[nodiscard]] double whole() const { return at(0, {}); }

 private:
  struct Weights {
    double mu_f, mu_b, nu_f, nu_b;
    std::vector<double> suffix = {};
  };

  /// What is on its way already and may or may not be waited for: the least of time minus memory
  /// over the lengths of time waited.
  static double pending(const TransferQueue& q, double now, double per_second, double per_byte,
                        double bandwidth);
  [[nodiscard]] double term(std::size_t b, const Weights& w) const;
  [[nodiscard]] double value(const Weights& w, double excess) const;
  /// Raises the bound one weight at a time (it is concave in each) from the given start.
  void add(Weights w, double excess);
  void raise(Weights& w, double Weights::* which, double high, double excess) const;

  const StepCosts* costs_;
  bool swap_, recompute_, drops_input_;
  std::vector<double> forward_, backward_;  ///< seconds of the blocks from b on
  std::vector<std::int64_t> saved_;         ///< bytes of the blocks from b on
  std::vector<Weights> weights_;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE LowerBound::LowerBound(const StepCosts& costs, bool may_swap, bool may_recompute,
                                    bool drops_input)
    : costs_(&costs), swap_(may_swap), recompute_(may_recompute), drops_input_(drops_input) {
  const auto n = costs.blocks.size();
  forward_.assign(n + 1, 0);
  backward_.assign(n + 1, 0);
  saved_.assign(n + 1, 0);
  for (auto b = n; b-- > 0;) {
    forward_[b] = forward_[b + 1] + costs.blocks[b].forward;
    backward_[b] = backward_[b + 1] + costs.blocks[b].backward;
    saved_[b] = saved_[b + 1] + costs.blocks[b].saved;
  }
  const auto excess = static_cast<double>(saved_[0] - costs.budget);
  if (excess <= 0) return;
  for (const double part : {1.0, 0.4}) {
    for (const double f : {0.0, 0.5, 1.0}) {
      for (const double b : {0.0, 0.5, 1.0}) add({f, b, 0, 0}, excess * part);
    }
  }
}

KRAMA_INLINE double LowerBound::at(int first, const PartialPlan& p) const {
  const auto k = static_cast<std::size_t>(first);
  const double f = p.forward + forward_[k];
  const double b = p.backward + backward_[k];
  const auto excess = static_cast<double>(p.kept + saved_[k] - costs_->budget);
  double best = f + b;
  for (const auto& w : weights_) {
    best = std::max(best,
                    w.mu_f * f + (1 - w.mu_f) * p.forward + w.mu_b * b + (1 - w.mu_b) * p.backward +
                        (w.nu_f + w.nu_b) * excess +
                        pending(p.out, p.forward, 1 - w.mu_f, w.nu_f, costs_->link.out_bandwidth) +
                        pending(p.in, p.backward, 1 - w.mu_b, w.nu_b, costs_->link.in_bandwidth) +
                        w.suffix[k]);
  }
  return best;
}

KRAMA_INLINE double LowerBound::pending(const TransferQueue& q, double now, double per_second,
                                        double per_byte, double bandwidth) {
  if (q.empty()) return 0;
  const auto& oldest = q.entries()[q.first()];
  const auto all = static_cast<double>(q.bytes());
  const auto head = static_cast<double>(oldest.bytes);
  const double none = per_byte * all;
  const double one = per_second * (oldest.end - now) + per_byte * (all - head);
  return std::min({none, one, one + (per_second / bandwidth - per_byte) * (all - head)});
}

KRAMA_INLINE double LowerBound::term(std::size_t b, const Weights& w) const {
  if (b + 1 >= costs_->blocks.size()) return 0;
  const BlockCost& c = costs_->blocks[b];
  const auto saved = static_cast<double>(c.saved);
  double t = 0;
  if (recompute_) {
    const double dropped = drops_input_ ? saved : saved - static_cast<double>(c.input);
    t = std::min(t, w.mu_b * c.forward - (w.nu_f + w.nu_b) * dropped);
  }
  if (swap_) {
    t = std::min(t, std::min(0.0, (1 - w.mu_f) * costs_->link.out(c.saved) - w.nu_f * saved) +
                        std::min(0.0, (1 - w.mu_b) * costs_->link.in(c.saved) - w.nu_b * saved));
  }
  return t;
}

KRAMA_INLINE double LowerBound::value(const Weights& w, double excess) const {
  double v = w.mu_f * forward_[0] + w.mu_b * backward_[0] + (w.nu_f + w.nu_b) * excess;
  for (std::size_t b = 0; b < costs_->blocks.size(); ++b) v += term(b, w);
  return v;
}

KRAMA_INLINE void LowerBound::add(Weights w, double excess) {
  double dearest = 0;  // no byte is worth more
  for (const auto& c : costs_->blocks) {
    const auto saved = static_cast<double>(std::max<std::int64_t>(c.saved, 1));
    if (recompute_) {
      const double dropped = drops_input_ ? saved : saved - static_cast<double>(c.input);
      dearest = std::max(dearest, c.forward / std::max(1.0, dropped));
    }
    if (swap_)
      dearest = std::max(dearest, (costs_->link.out(c.saved) + costs_->link.in(c.saved)) / saved);
  }
  const int sweeps = costs_->count() > 200 ? 1 : 3;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    raise(w, &Weights::nu_b, dearest, excess);
    raise(w, &Weights::nu_f, dearest, excess);
    if (sweep + 1 == sweeps) break;
    raise(w, &Weights::mu_b, 1, excess);
    raise(w, &Weights::mu_f, 1, excess);
  }
  w.suffix.assign(costs_->blocks.size() + 1, 0);
  for (auto b = costs_->blocks.size(); b-- > 0;) w.suffix[b] = w.suffix[b + 1] + term(b, w);
  weights_.push_back(std::move(w));
}

KRAMA_INLINE void LowerBound::raise(Weights& w, double Weights::* which, double high,
                                    double excess) const {
  double low = 0;
  for (int i = 0; i < 24; ++i) {
    Weights left = w;
    Weights right = w;
    left.*which = low + (high - low) * 0.45;
    right.*which = low + (high - low) * 0.55;
    if (value(left, excess) < value(right, excess)) {
      low = left.*which;
    } else {
      high = right.*which;
    }
  }
  Weights moved = w;
  moved.*which = 0.5 * (low + high);
  if (value(moved, excess) > value(w, excess)) w = moved;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
