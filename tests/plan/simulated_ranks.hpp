// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <krama/plan/share_controller.hpp>
#include <krama/plan/solve_shares.hpp>

#include <cmath>
#include <random>
#include <vector>

/// Ranks without a machine: times from a formula, with noise and disturbances.
namespace plan_test {

struct SimulatedRank {
  double seconds_per_sample = 1;
  double seconds_per_step = 0;
};

class SimulatedJob {
 public:
  explicit SimulatedJob(const std::vector<SimulatedRank>& ranks, unsigned seed = 1)
      : ranks_(ranks), slowed_(ranks_.size(), 1.0), random_(seed) {}

  void set_noise(double relative) { noise_ = relative; }
  void slow_down(std::size_t r, double factor) { slowed_[r] = factor; }

  [[nodiscard]] double mean_seconds(std::size_t r, std::int64_t n) const {
    return n == 0 ? 0.0
                  : slowed_[r] * (ranks_[r].seconds_per_step +
                                  ranks_[r].seconds_per_sample * static_cast<double>(n));
  }
  /// One step: what each rank needed.
  std::vector<double> step(const krama::plan::Shares& shares) {
    std::normal_distribution<double> noise(1.0, noise_);
    std::vector<double> seconds;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      const double factor = noise_ > 0 ? std::max(0.1, noise(random_)) : 1.0;
      seconds.push_back(mean_seconds(r, shares[r]) * factor);
    }
    return seconds;
  }
  /// The step's time without noise, over that of the best whole shares: 1 is the bound.
  [[nodiscard]] double over_best(const krama::plan::Shares& shares,
                                 const krama::plan::ShareLimits& limits = {}) const {
    std::int64_t batch = 0;
    for (const auto n : shares) batch += n;
    const auto cost = [&](std::size_t r, std::int64_t n) { return mean_seconds(r, n); };
    const auto best = krama::plan::solve_shares(batch, shares.size(), limits, cost);
    return krama::plan::slowest(shares, cost) / krama::plan::slowest(best, cost);
  }
  /// Runs `steps` steps and counts the changes.
  int run(krama::plan::ShareController& controller, int steps) {
    int changes = 0;
    for (int s = 0; s < steps; ++s) {
      if (controller.after_step(step(controller.shares()))) ++changes;
    }
    return changes;
  }

 private:
  std::vector<SimulatedRank> ranks_;
  std::vector<double> slowed_;
  std::mt19937_64 random_;
  double noise_ = 0;
};

}  // namespace plan_test
