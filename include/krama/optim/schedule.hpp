// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/optim/optimizer.hpp>

namespace krama::optim {

/// The learning rate as a function of the step. Every rank computes it for itself, so it uses only
/// arithmetic that gives the same bits everywhere (no library cosine).
class Schedule {
 public:
  /// `lr` in every step, reached by a linear rise over `warm_up` steps.
  static Schedule constant(double lr, std::int64_t warm_up = 0) {
    return Schedule(Kind::constant, lr, warm_up);
  }
  /// A linear rise over `warm_up` steps, then half a cosine from `lr` down to `floor`, reached
  /// after `steps` steps (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts). `steps`
  /// 0: the fall follows the fraction that `at` is given, as for a run that is limited by time.
  static Schedule cosine(double lr, std::int64_t warm_up, std::int64_t steps, double floor = 0.0);
  /// `lr`, multiplied by `factor` after every `every` steps.
  static Schedule step(double lr, std::int64_t every, double factor, std::int64_t warm_up = 0);

  /// Learning rate of step `step` (from 0). `fraction` in [0, 1] says how far the run is by other
  /// means (time); the cosine follows whichever is further.
  [[nodiscard]] double at(std::int64_t step, double fraction = 0.0) const;

 private:
  enum class Kind : std::uint8_t { constant, cosine, step };

  Schedule(Kind kind, double lr, std::int64_t warm_up);

  [[nodiscard]] double position(std::int64_t step, double fraction) const;

  /// (1 + cos(pi p)) / 2 for p in [0, 1]: -sin about the middle by its series, whose first left-out
  /// term is below 2^-59.
  static double half_cosine(double p);

  Kind kind_;
  double lr_;
  std::int64_t warm_up_;
  std::int64_t period_ = 0;  ///< cosine: all steps; step: steps between two falls
  double floor_ = 0.0;
  double factor_ = 1.0;
};

}  // namespace krama::optim

#if KRAMA_DEFINITIONS

namespace krama::optim {

KRAMA_INLINE Schedule Schedule::cosine(double lr, std::int64_t warm_up, std::int64_t steps,
                                       double floor) {
  KRAMA_EXPECTS(steps == 0 || steps > warm_up,
                "cosine schedule: {} steps leave nothing after a warm-up of {}", steps, warm_up);
  KRAMA_EXPECTS(floor >= 0.0 && floor <= lr,
                "cosine schedule: the floor must lie between 0 and {}, found {}", lr, floor);
  Schedule s(Kind::cosine, lr, warm_up);
  s.period_ = steps;
  s.floor_ = floor;
  return s;
}

KRAMA_INLINE Schedule Schedule::step(double lr, std::int64_t every, double factor,
                                     std::int64_t warm_up) {
  KRAMA_EXPECTS(every > 0, "step schedule: the period must be positive, found {}", every);
  KRAMA_EXPECTS(factor > 0.0, "step schedule: the factor must be positive, found {}", factor);
  Schedule s(Kind::step, lr, warm_up);
  s.period_ = every;
  s.factor_ = factor;
  return s;
}

KRAMA_INLINE double Schedule::at(std::int64_t step, double fraction) const {
  KRAMA_EXPECTS(step >= 0, "schedule: steps count from 0, found {}", step);
  if (step < warm_up_) return lr_ * static_cast<double>(step + 1) / static_cast<double>(warm_up_);
  switch (kind_) {
    case Kind::constant:
      return lr_;
    case Kind::step:
      return lr_ * power(factor_, step / period_);
    case Kind::cosine:
      return std::fma(lr_ - floor_, half_cosine(std::clamp(position(step, fraction), 0.0, 1.0)),
                      floor_);
  }
  return lr_;
}

KRAMA_INLINE Schedule::Schedule(Kind kind, double lr, std::int64_t warm_up)
    : kind_(kind), lr_(lr), warm_up_(warm_up) {
  KRAMA_EXPECTS(lr > 0.0 && std::isfinite(lr),
                "schedule: the learning rate must be positive, "
                "found {}",
                lr);
  KRAMA_EXPECTS(warm_up >= 0, "schedule: the warm-up must not be negative, found {}", warm_up);
}

KRAMA_INLINE double Schedule::position(std::int64_t step, double fraction) const {
  if (period_ == 0) return fraction;
  const auto total = static_cast<double>(period_);
  const auto warm = static_cast<double>(warm_up_);
  const double now = std::max(static_cast<double>(step), fraction * total);
  return (now - warm) / (total - warm);
}

KRAMA_INLINE double Schedule::half_cosine(double p) {
  const double x = 3.14159265358979323846 * (p - 0.5);
  const double z = x * x;
  double series = 1.0;
  for (int k = 10; k >= 1; --k) {
    // sin x = x (1 - z / (2 3) (1 - z / (4 5) (1 - …)))
    series = std::fma(-z / static_cast<double>(2 * k * (2 * k + 1)), series, 1.0);
  }
  return std::clamp(std::fma(-0.5 * x, series, 0.5), 0.0, 1.0);
}

}  // namespace krama::optim

#endif  // KRAMA_DEFINITIONS
