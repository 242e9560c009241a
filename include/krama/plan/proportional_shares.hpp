// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/rank_times.hpp>
#include <krama/plan/share_controller.hpp>
#include <krama/plan/solve_shares.hpp>

namespace krama::plan {

struct ProportionalOptions {
  double dead_band = 0.05;  ///< of the mean time; while every rank is within it, nothing changes
  double window = 24;       ///< steps over which times are smoothed
  int settle = 2;           ///< steps between two changes, at least
  int warm_up = 1;          ///< first steps that are not believed
};

/// Proportional control (OmniLearn, Tyagi and Sharma 2025): a rank that ends e = t - mean(t) late
/// gives up the X e samples that it would have handled in that time at its throughput X = n / t,
///
///     n <- n - X e = n mean(t) / t,
///
/// scaled to the global batch and rounded to whole numbers within the limits. Times are smoothed, and
/// within a dead band nothing is done.
class ProportionalShares final : public ShareController {
 public:
  explicit ProportionalShares(Shares start, ShareLimits limits = {},
                              ProportionalOptions options = {})
      : ShareController(std::move(start), std::move(limits)),
        options_(options),
        times_(ranks(), RankTimes(CurveShape::linear, options.window)) {}

 protected:
  std::optional<ShareProposal> propose(std::span<const double> seconds) override;

 private:
  ProportionalOptions options_;
  std::vector<RankTimes> times_;
  int steps_ = 0;
  int since_ = 1000;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE std::optional<ShareProposal> ProportionalShares::propose(
    std::span<const double> seconds) {
  if (steps_++ < options_.warm_up) return std::nullopt;
  ++since_;
  double mean = 0;
  double known = 0;
  bool waits = since_ < options_.settle;
  for (std::size_t r = 0; r < ranks(); ++r) {
    times_[r].observe(shares()[r], seconds[r]);
    waits = waits || times_[r].suspicious();
    if (shares()[r] == 0) continue;
    mean += times_[r].seconds(shares()[r]);
    known += 1;
  }
  if (waits || known == 0) return std::nullopt;
  mean = mean / known;
  double largest = 0;
  std::size_t worst = 0;
  std::vector<double> wanted(ranks(), 0.0);
  for (std::size_t r = 0; r < ranks(); ++r) {
    if (shares()[r] == 0) continue;  // nothing is known; only a minimum brings it back
    const double t = times_[r].seconds(shares()[r]);
    wanted[r] = static_cast<double>(shares()[r]) * mean / t;
    if (std::abs(t - mean) / mean > largest) {
      largest = std::abs(t - mean) / mean;
      worst = r;
    }
  }
  if (largest <= options_.dead_band) return std::nullopt;
  since_ = 0;
  const double t = times_[worst].seconds(shares()[worst]);
  return ShareProposal{
      solve_shares(batch(), ranks(), limits(),
                   [&](std::size_t r, std::int64_t n) {
                     return static_cast<double>(n) / std::max(wanted[r], 1e-9);
                   }),
      fmt::format("rank {} took {:.1f} ms a step, the mean is {:.1f}", worst, 1e3 * t, 1e3 * mean)};
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
