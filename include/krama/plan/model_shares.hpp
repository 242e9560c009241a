// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/rank_times.hpp>
#include <krama/plan/share_controller.hpp>
#include <krama/plan/solve_shares.hpp>

namespace krama::plan {

struct ModelOptions {
  CurveShape shape = CurveShape::linear;
  double window = 32;         ///< steps that a mean remembers
  double least_gain = 0.003;  ///< of the step's time, below which nothing changes
  double certainty = 3.0;     ///< standard errors by which a gain must exceed that
  double horizon = 100;       ///< steps that a change must last to pay back its cost
  int settle = 2;             ///< steps between two changes, at least
  int warm_up = 1;            ///< first steps that are not believed
  BorderTimes border = {};
};

/// Model-based control: each rank's time as a function of its samples is fitted on line, and the
/// shares are solved so that all ranks end together, as far as whole samples and limits allow (after
/// Cannikin, Nie, Maghakian, Liu 2024, and the measured curves of Poplar). Shares change when the
/// predicted gain exceeds `least_gain` by more than the times' scatter can explain, and pays for
/// the change, whose cost is what the first steps after past changes took beyond the prediction.
class ModelShares final : public ShareController {
 public:
  explicit ModelShares(Shares start, ShareLimits limits = {}, ModelOptions options = {})
      : ShareController(std::move(start), std::move(limits)),
        options_(options),
        times_(ranks(), RankTimes(options.shape, options.window)) {}

  [[nodiscard]] const RankTimes& times(std::size_t r) const { return times_[r]; }
  /// Seconds that a change costs beyond the steps themselves, from the changes so far.
  [[nodiscard]] double cost_of_change() const { return cost_; }

 protected:
  std::optional<ShareProposal> propose(std::span<const double> seconds) override;

 private:
  /// A rank that was never measured is taken to be as fast as the mean of the others.
  [[nodiscard]] double step_end(std::size_t r, std::int64_t n) const;

  void learn_cost(std::span<const double> seconds);

  ModelOptions options_;
  std::vector<RankTimes> times_;
  int steps_ = 0;
  int since_ = 1000;
  double predicted_ = 0;  ///< of the step after a change; 0: none is awaited
  double cost_ = 0;
  double changes_ = 0;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE std::optional<ShareProposal> ModelShares::propose(std::span<const double> seconds) {
  if (steps_++ < options_.warm_up) return std::nullopt;
  learn_cost(seconds);
  bool waits = ++since_ < options_.settle;
  double error = 0;
  for (std::size_t r = 0; r < ranks(); ++r) {
    times_[r].observe(shares()[r], seconds[r]);
    waits = waits || times_[r].suspicious();
    if (times_[r].known()) error = std::max(error, times_[r].error());
  }
  if (waits) return std::nullopt;
  const auto cost = [&](std::size_t r, std::int64_t n) { return step_end(r, n); };
  const double now = slowest(shares(), cost);
  auto wanted = solve_shares(batch(), ranks(), limits(), cost);
  const double then = slowest(wanted, cost);
  const double gain = now - then;
  if (gain <= now * (options_.least_gain + options_.certainty * error)) return std::nullopt;
  if (gain * options_.horizon <= cost_) return std::nullopt;
  since_ = 0;
  predicted_ = then;
  std::string reason = fmt::format("a step takes {:.4g} ms of computing, not {:.4g}; samples/s",
                                   1e3 * then, 1e3 * now);
  for (std::size_t r = 0; r < ranks() && r < 8; ++r) {
    reason += fmt::format("{} {:.4g}", r == 0 ? "" : ",", times_[r].samples_per_second());
  }
  if (ranks() > 8) reason += ", …";
  return ShareProposal{std::move(wanted), std::move(reason)};
}

KRAMA_INLINE double ModelShares::step_end(std::size_t r, std::int64_t n) const {
  if (times_[r].known()) return options_.border.end_of(times_[r].seconds(n));
  double sum = 0;
  double known = 0;
  for (const auto& t : times_) {
    if (!t.known()) continue;
    sum += t.seconds(n);
    known += 1;
  }
  return known > 0 ? options_.border.end_of(sum / known) : static_cast<double>(n);
}

KRAMA_INLINE void ModelShares::learn_cost(std::span<const double> seconds) {
  if (predicted_ <= 0) return;
  const double took = options_.border.end_of(*std::max_element(seconds.begin(), seconds.end()));
  const double beyond = std::max(0.0, took - predicted_);
  cost_ += (beyond - cost_) / ++changes_;
  predicted_ = 0;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
