// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama::optim {

/// How the loss is scaled in training with f16, whose smallest numbers gradients fall below: the
/// gradient of the output is multiplied by a scale before it is rounded, and the sums of gradients
/// are divided by it before they are used (Micikevicius et al. 2018, arXiv:1710.03740). A step whose
/// gradient is not finite is skipped and the scale lowered; `growth_interval` steps without one, and
/// it grows (as torch.amp.GradScaler does).
///
/// Scales are powers of two: multiplying and dividing by them does not round. Gradients here are sums
/// over rows, not means, so scales are smaller than PyTorch's by the rows of a batch.
struct LossScaling {
  double initial = 0.0;  ///< first scale; 0: gradients are not scaled
  double growth = 2.0;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;
  double smallest = 0x1p-10;  ///< a gradient that is not finite with this one is an error
  double largest = 0x1p24;

  /// For f16.
  static LossScaling dynamic(double first = 1024.0) { return {.initial = first}; }
  [[nodiscard]] bool on() const { return initial > 0.0; }
};

/// The scale of a run, from step to step. All ranks see the same outcomes and so have the same scale.
class LossScaler {
 public:
  LossScaler() = default;
  explicit LossScaler(const LossScaling& options);

  [[nodiscard]] bool on() const { return options_.on(); }
  /// What the loss of the next step is multiplied by; 1 without scaling.
  [[nodiscard]] double scale() const { return scale_; }
  /// Steps with finite gradients since the scale changed.
  [[nodiscard]] std::int64_t good_steps() const { return good_steps_; }

  /// Hears how a step went. \return whether training may go on; a gradient that is not finite may be
  /// skipped as long as the scale can be lowered.
  bool after_step(bool finite);

  /// For checkpoints: "1024 17", empty without scaling.
  [[nodiscard]] std::string text() const {
    return on() ? fmt::format("{} {}", scale_, good_steps_) : std::string();
  }
  /// Goes on as the run that wrote `text`, where both scale. \throws Error if it is no such text
  void resume(const std::string& text);

 private:
  static bool is_power_of_two(double x);

  LossScaling options_;
  double scale_ = 1.0;
  std::int64_t good_steps_ = 0;
};

}  // namespace krama::optim

#if KRAMA_DEFINITIONS

namespace krama::optim {

KRAMA_INLINE LossScaler::LossScaler(const LossScaling& options) : options_(options) {
  if (!options.on()) {
    KRAMA_EXPECTS(options.initial == 0.0, "loss scaling: a first scale of {}", options.initial);
    return;
  }
  for (const double x :
       {options.initial, options.growth, options.backoff, options.smallest, options.largest}) {
    KRAMA_EXPECTS(is_power_of_two(x),
                  "loss scaling: scales and their factors are powers of two, so that nothing "
                  "rounds; found {}",
                  x);
  }
  KRAMA_EXPECTS(options.growth >= 1.0 && options.backoff < 1.0 && options.growth_interval > 0,
                "loss scaling: growth {} every {} steps and back-off {}; wanted at least 1, a "
                "positive number and below 1",
                options.growth, options.growth_interval, options.backoff);
  KRAMA_EXPECTS(options.smallest <= options.initial && options.initial <= options.largest,
                "loss scaling: a first scale of {} outside {} to {}", options.initial,
                options.smallest, options.largest);
  scale_ = options.initial;
}

KRAMA_INLINE bool LossScaler::after_step(bool finite) {
  if (finite) {
    if (on() && ++good_steps_ >= options_.growth_interval) {
      good_steps_ = 0;
      if (scale_ * options_.growth <= options_.largest) scale_ *= options_.growth;
    }
    return true;
  }
  good_steps_ = 0;
  if (!on() || scale_ * options_.backoff < options_.smallest) return false;
  scale_ *= options_.backoff;
  return true;
}

KRAMA_INLINE void LossScaler::resume(const std::string& text) {
  if (!on() || text.empty()) return;
  char* rest = nullptr;
  const double scale = std::strtod(text.c_str(), &rest);
  const char* count = rest;
  const long long good = std::strtoll(count, &rest, 10);
  KRAMA_EXPECTS(is_power_of_two(scale) && rest != count && *rest == '\0' && good >= 0,
                "loss scaling: \"{}\" is no scale with a number of steps", text);
  scale_ = scale;
  good_steps_ = good;
}

KRAMA_INLINE bool LossScaler::is_power_of_two(double x) {
  int exponent = 0;
  return std::isfinite(x) && x > 0.0 && std::frexp(x, &exponent) == 0.5;
}

}  // namespace krama::optim

#endif  // KRAMA_DEFINITIONS
