// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <krama/models/gpt.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/runtime/run.hpp>
#include <krama/testing/emulated_speed.hpp>
#include <krama/train/sources.hpp>
#include <krama/train/trainer.hpp>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "support/bench.hpp"

/// A job that trains a small GPT on ranks of emulated speeds.
namespace mixed_bench {

namespace train = krama::train;
constexpr std::int64_t batch = 240;

inline train::TextSource some_text() {
  std::vector<std::uint8_t> text;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    text.push_back(static_cast<std::uint8_t>(97 + 25 * krama::uniform({3, 0, 0}, i)));
  }
  return {text, 16, "some text"};
}

/// What one step of a job took, and with which shares.
struct Step {
  double seconds = 0;
  double rest = 0;  ///< of it, beyond the computing of the rank that computes longest
  krama::plan::Shares shares;
};

struct Job {
  train::ShareOptions shares = {};
  std::int64_t steps = 0;
  double noise = 0;
  /// Called before every step on every rank, with the steps done: changes speeds in mid-run.
  std::function<void(std::int64_t, krama::testing::EmulatedSpeed&)> before_step = {};
};

class Result {
 public:
  std::vector<Step> steps;
  std::vector<krama::plan::ShareChange> changes;
  std::int64_t overruns = 0;

  /// Seconds that a quarter of the steps from `begin` to `end` kept within: on a busy machine other
  /// processes only ever add time, and they hit some steps and not others.
  [[nodiscard]] double quiet(std::size_t begin, std::size_t end) const {
    return quarter(begin, end, &Step::seconds);
  }
  /// Likewise of what is not computing.
  [[nodiscard]] double quiet_rest(std::size_t begin, std::size_t end) const {
    return quarter(begin, end, &Step::rest);
  }
  /// Number of changes at steps from `begin` to before `end`.
  [[nodiscard]] std::int64_t changes_in(std::int64_t begin, std::int64_t end) const {
    return std::count_if(changes.begin(), changes.end(), [&](const auto& c) {
      return !c.before.empty() && c.step >= begin && c.step < end;
    });
  }

 private:
  [[nodiscard]] double quarter(std::size_t begin, std::size_t end, double Step::* what) const {
    std::vector<double> values;
    for (std::size_t i = begin; i < std::min(end, steps.size()); ++i) {
      values.push_back(steps[i].*what);
    }
    std::sort(values.begin(), values.end());
    return values.at(values.size() / 4);
  }
};

/// Seconds that rank r of speeds 1:a:b:… needs for a sample, so that a well shared step takes
/// `step_seconds`. Speed 3 stands for a rank three times as slow.
inline double seconds_per_sample(const std::vector<double>& slowness, std::size_t r,
                                 double step_seconds) {
  double together = 0;
  for (const double s : slowness) together += 1.0 / s;
  return slowness[r] * step_seconds * together / static_cast<double>(batch);
}

/// Trains `job.steps` steps; the same result on every rank, except for `changes` (rank 0).
inline Result run_job(krama::World& world, double per_sample, Job job) {
  using D = krama::DefaultDevice;
  const krama::exec_of<D> exec;
  static const auto text = some_text();
  const auto model = krama::models::gpt<D, float>(
      {.vocabulary = 128, .context = 16, .features = 16, .layers = 1, .heads = 2});
  auto store = model.make_store(exec, 1);
  krama::testing::EmulatedSpeed speed(per_sample);
  speed.add_noise(job.noise, static_cast<std::uint64_t>(17 + world.rank()));
  Result result;
  train::TrainerOptions options{.global_batch = batch, .steps = job.steps, .seed = 3};
  options.shares = std::move(job.shares);
  options.fingerprint_every = 0;
  options.executor.micro_batch = 60;
  options.executor.after_backward = speed;
  options.on_shares = [&](const auto& change) { result.changes.push_back(change); };
  train::Trainer<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::World> trainer(
      exec, model, store, {}, {}, krama::optim::Schedule::constant(1e-3), world, options);
  if (job.before_step) job.before_step(0, speed);
  double begin = krama::bench::seconds_now();
  trainer.fit(text, [&](const train::StepReport& r) {
    const double now = krama::bench::seconds_now();
    const auto& computing = r.outcome.rank_seconds;
    const double longest = *std::max_element(computing.begin(), computing.end());
    result.steps.push_back({now - begin, now - begin - longest, r.samples});
    begin = now;
    if (job.before_step) job.before_step(r.step, speed);
    return true;
  });
  std::array<std::int64_t, 1> overruns{speed.overruns()};
  world.sum(overruns, "overruns");
  result.overruns = overruns[0];
  return result;
}

}  // namespace mixed_bench
