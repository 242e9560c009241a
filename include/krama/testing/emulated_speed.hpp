// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include <krama/core/random.hpp>

namespace krama::testing {

/// Makes a rank as slow as it is told to be: as ExecutorOptions::after_backward it sleeps until the
/// step has taken a fixed time for each sample. Gradients are computed as ever, so long as that is
/// faster; sleeping ranks share the cores of a small machine. Copies act on the same speed, so a copy
/// that the caller keeps can change it in mid-run.
class EmulatedSpeed {
 public:
  explicit EmulatedSpeed(double seconds_per_sample, double seconds_per_step = 0)
      : state_(std::make_shared<State>()) {
    state_->per_sample = seconds_per_sample;
    state_->per_step = seconds_per_step;
  }

  /// `factor` times as slow as at first.
  void slow_down(double factor) { state_->factor = factor; }
  /// Every step's time is scattered by a normal distribution of this relative width.
  void add_noise(double relative, std::uint64_t seed) {
    state_->noise = relative;
    state_->seed = seed;
  }
  /// Steps so far in which computing alone took longer than it was meant to, so that this was no
  /// emulation.
  [[nodiscard]] std::int64_t overruns() const { return state_->overruns; }
  /// What a step with so many samples is meant to take, without noise.
  [[nodiscard]] double seconds(std::int64_t samples) const {
    const double n = static_cast<double>(samples);
    return samples == 0 ? 0.0 : state_->factor * (state_->per_step + state_->per_sample * n);
  }

  void operator()(std::int64_t samples, double elapsed) const {
    State& s = *state_;
    double wanted = seconds(samples);
    if (s.noise > 0) wanted *= std::max(0.1, 1.0 + s.noise * normal({s.seed, 0, 0}, s.steps));
    ++s.steps;
    if (samples > 0 && elapsed > wanted) ++s.overruns;
    if (elapsed < wanted) {
      std::this_thread::sleep_for(std::chrono::duration<double>(wanted - elapsed));
    }
  }

 private:
  struct State {
    double per_sample = 0;
    double per_step = 0;
    double factor = 1;
    double noise = 0;
    std::uint64_t seed = 0;
    std::uint64_t steps = 0;
    std::int64_t overruns = 0;
  };
  std::shared_ptr<State> state_;
};

}  // namespace krama::testing
