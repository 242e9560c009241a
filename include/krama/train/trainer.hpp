// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/optim/schedule.hpp>
#include <krama/program/executor.hpp>
#include <krama/program/fingerprint.hpp>
#include <krama/program/gather_numbers.hpp>
#include <krama/runtime/quiet.hpp>
#include <krama/train/data.hpp>
#include <krama/train/feeder.hpp>
#include <krama/train/local_rounds.hpp>
#include <krama/train/memory_plan.hpp>
#include <krama/train/share_steering.hpp>
#include <krama/train/together.hpp>
#include <krama/train/trainer_options.hpp>

namespace krama::train {

/// Trains a model the usual way: for those who want no loop of their own. Everything it does is in
/// the parts that it uses, and a loop of one's own can use them likewise (docs, "own loop").
template <Device D, Scalar T, class Loss, class Optimizer, class Comm>
class Trainer {
 public:
  using Exec = Executor<D, T, Loss, Optimizer, Comm>;
  using Store = ParamStore<T, mem_of<D>>;
  /// Return false to stop after this step; all ranks must answer alike or one `false` stops all.
  using Callback = std::function<bool(const StepReport&)>;

  Trainer(const exec_of<D>& exec, const nn::Model<D, T>& model, Store& store, Loss loss,
          Optimizer optimizer, optim::Schedule schedule, Comm comm, TrainerOptions options)
      : exec_(exec),
        store_(&store),
        comm_(comm),
        schedule_(std::move(schedule)),
        options_(std::move(options)),
        shares_(detail::checked_batch(options_), comm_.size(), comm_.rank(), options_.shares),
        groups_(comm_.size(), options_.local.has_value(), options_.local_groups),
        inner_(groups_.split(comm_)),
        local_(options_.local ? std::make_shared<Local>(exec, store, comm_, inner_, *options_.local)
                              : nullptr),
        executor_(exec, model, store, std::move(loss), std::move(optimizer), inner_,
                  executor_options(model)) {
    check_same_model(comm_, store);
  }

  /// From the next `fit` on, everything that a step computes (values, what blocks save, their
  /// gradients, scratch memory; not parameters and moments) stays within `bytes` of this rank's
  /// memory, whatever the model: blocks are swapped to the far tier and recomputed as a plan says that
  /// is made from some measured steps. The bits of the training are those without a budget. Where to
  /// swap is said by `ExecutorOptions::swap`. Every rank gives a budget of its own; 0 ends it.
  /// The next `fit` throws plan::DoesNotFit on every rank, before its first step, where nothing fits.
  void memory_budget(std::int64_t bytes) {
    KRAMA_EXPECTS(bytes >= 0, "a memory budget of {} bytes", bytes);
    const std::int64_t before = std::exchange(budget_, bytes);
    memory_plan_.clear();
    // Named here only, so that programs without a budget do not compile the planner.
    make_plan_ = [](Trainer& t, const Run& run) {
      return train_within(t.exec_, t.executor_, t.comm_, t.budget_, run);
    };
    if (before > 0 && bytes == 0) executor_.adopt({});
  }
  /// The plan of this rank in words; empty before the first `fit` with a budget.
  [[nodiscard]] const std::string& memory_plan() const { return memory_plan_; }

  /// Trains until the steps or the time are used up, or a callback says so. Collective over comm.
  /// With local rounds it looks at the time, and calls back, between rounds only; at its end all
  /// replicas are the same.
  /// \throws Error on every rank when the replicas differ or a gradient is not finite; with loss
  /// scaling such a step is skipped (StepOutcome::skipped) as long as the scale can be lowered.
  template <DataSource Source>
  void fit(const Source& source, const Callback& after_step = {}) {
    const auto start = Clock::now();
    SampleSequence sequence(options_.seed, source.size());
    Feeder<D, T, Loss, Source> feeder(exec_, source);
    const auto r = static_cast<std::size_t>(comm_.rank());
    tell(shares_.beginning(steps_));
    bool wants_stop = false;
    if (budget_ > 0 && memory_plan_.empty()) plan_memory_use(sequence, feeder);
    if (local_) local_->begin(steps_);
    while (continue_training(start, wants_stop)) {
      const auto begin = Clock::now();
      const auto& samples = shares_.shares();
      const std::int64_t first = first_of(samples);
      const auto step = [&](std::int64_t n) {
        const auto ids = sequence.ids(n * options_.global_batch + first, samples[r]);
        return executor_.step(static_cast<std::uint32_t>(n), options_.seed,
                              schedule_.at(n, fraction_), first, samples[r],
                              feeder.feed(ids, options_.executor.micro_batch));
      };
      const std::int64_t steps = local_ ? steps_of_round() : 1;
      const StepOutcome o = local_ ? local_->run(steps_, steps, step) : step(steps_);
      steps_ += steps;
      KRAMA_EXPECTS(
          o.finite || o.skipped,
          "step {}: the gradient or the loss is not finite; lower the learning rate, clip "
          "gradients, or look for bad samples",
          steps_);
      if (passes(steps_ - steps, steps_, options_.fingerprint_every)) {
        agreed([&] { check_same_values(comm_, exec_, *store_, steps_); });
      }
      shares_.after_step(o.rank_seconds);
      if (!after_step) continue;
      wants_stop = !after_step({steps_, steps, o, schedule_.at(steps_ - 1, fraction_),
                                seconds_since(begin) / static_cast<double>(steps),
                                seconds_since(start), progress_fraction(start), samples});
    }
    if (local_) local_->settle();
  }

  /// Mean loss over all samples of `source`, each evaluated exactly once whatever the number of
  /// ranks; between local rounds that of the average. Collective over comm. \throws Error on every rank when one could not do its part.
  template <DataSource Source>
  double evaluate(const Source& source) {
    Feeder<D, T, Loss, Source> feeder(exec_, source);
    const auto& now = shares_.shares();
    const auto counts = split_batch(source.size(), std::vector<double>(now.begin(), now.end()));
    const std::int64_t first = first_of(counts);
    const std::int64_t mine = counts[static_cast<std::size_t>(comm_.rank())];
    std::vector<std::int64_t> ids(static_cast<std::size_t>(mine));
    std::iota(ids.begin(), ids.end(), first);
    StepOutcome o;
    agreed([&] {
      together_or_not(comm_, "evaluation", [&] {
        o = executor_.evaluate(options_.seed, first, mine,
                               feeder.feed(ids, options_.executor.micro_batch));
      });
    });
    std::array<double, 2> sums{o.loss_sum, o.weight};
    comm_.sum_in_rank_order(sums, "evaluation");
    return sums[1] > 0 ? sums[0] / sums[1] : 0.0;
  }

  [[nodiscard]] std::int64_t steps_done() const { return steps_; }
  void set_steps_done(std::int64_t n) { steps_ = n; }
  [[nodiscard]] Exec& executor() { return executor_; }
  [[nodiscard]] Store& store() { return *store_; }
  [[nodiscard]] const TrainerOptions& options() const { return options_; }
  [[nodiscard]] ShareSteering& shares() { return shares_; }
  [[nodiscard]] Comm& comm() { return comm_; }
  /// Ranks that train one replica together; all of them without local rounds.
  [[nodiscard]] const LocalGroups& groups() const { return groups_; }
  [[nodiscard]] Comm& group_comm() { return inner_; }
  /// Null: every step is synchronous.
  [[nodiscard]] LocalRounds<D, T, Comm>* local() { return local_.get(); }

 private:
  using Local = LocalRounds<D, T, Comm>;
  using Clock = std::chrono::steady_clock;
  using Run = std::function<void()>;

  static double seconds_since(Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  }
  /// The executor's, with optimizer state cut by memory, and looking after what travels beside it.
  [[nodiscard]] ExecutorOptions executor_options(const nn::Model<D, T>& model) {
    ExecutorOptions o = detail::with_state_by_memory(inner_, options_);
    // Where one rank's near memory is too small for the weights that pass through it, all throw.
    together_or_not(comm_, "near memory for weights",
                    [&] { WeightWindow<D, T>::check(model, *store_, o.weights_budget); });
    if (local_) o.after_instruction = [local = local_.get()] { local->poll(); };
    return o;
  }
  /// f on values that are the same on all ranks.
  template <class F>
  void agreed(const F& f) {
    if (local_) {
      local_->with_anchor(f);
    } else {
      f();
    }
  }
  /// The last round may be shorter.
  [[nodiscard]] std::int64_t steps_of_round() const {
    const std::int64_t k = options_.local->local_steps;
    return options_.steps > 0 ? std::min(k, options_.steps - steps_) : k;
  }
  /// Measures gradients of the step that comes, which is then done as if nothing had been.
  template <class Sequence, class F>
  void plan_memory_use(Sequence& sequence, F& feeder) {
    const auto& samples = shares_.shares();
    const std::int64_t first = first_of(samples);
    const std::int64_t mine = samples[static_cast<std::size_t>(comm_.rank())];
    const auto ids = sequence.ids(steps_ * options_.global_batch + first, mine);
    memory_plan_ = make_plan_(*this, [&] {
      executor_.gradients_only(options_.seed, first, mine,
                               feeder.feed(ids, options_.executor.micro_batch));
    });
    if (memory_plan_.empty()) memory_plan_ = "nothing to plan for: no samples\n";
    if (comm_.rank() == 0) fmt::print("{}", memory_plan_);
  }

  /// How far the job is, by steps or by time, whichever is further.
  [[nodiscard]] double progress_fraction(Clock::time_point start) const {
    double f = 0;
    if (options_.steps > 0) {
      f = static_cast<double>(steps_) / static_cast<double>(options_.steps);
    }
    if (options_.time_limit > 0) f = std::max(f, seconds_since(start) / options_.time_limit);
    return std::min(f, 1.0);
  }

  /// The first agreement of a step: any rank that must stop stops all of them, and all follow rank
  /// 0's clock, so that a schedule over time gives one learning rate, and rank 0's shares.
  bool continue_training(Clock::time_point start, bool wants_stop) {
    const bool done = (options_.steps > 0 && steps_ >= options_.steps) ||
                      (options_.stop_after > 0 && steps_ >= options_.stop_after);
    const bool late = options_.time_limit > 0 && seconds_since(start) >= options_.time_limit;
    std::vector<double> mine{wants_stop || done || late ? 1.0 : 0.0, progress_fraction(start)};
    const auto news = shares_.announcement(steps_);
    mine.insert(mine.end(), news.begin(), news.end());
    const auto all = gather_numbers(comm_, mine, "step begins");
    fraction_ = all[0][1];
    if (std::any_of(all.begin(), all.end(), [](const auto& rank) { return rank[0] != 0; })) {
      return false;
    }
    if (shares_.hear(steps_, std::span(all[0]).subspan(2))) tell(shares_.log().changes().back());
    return true;
  }

  /// Place of this rank's first sample when the ranks take `counts`.
  [[nodiscard]] std::int64_t first_of(const plan::Shares& counts) const {
    return std::accumulate(counts.begin(), counts.begin() + comm_.rank(), std::int64_t{0});
  }
  void tell(const plan::ShareChange& change) const {
    if (comm_.rank() != 0 || comm_.size() == 1) return;
    if (options_.on_shares) {
      options_.on_shares(change);
      return;
    }
    if (is_quiet()) return;
    std::fputs((change.line() + "\n").c_str(), stdout);
    std::fflush(stdout);
  }

  exec_of<D> exec_;
  Store* store_;
  Comm comm_;
  optim::Schedule schedule_;
  TrainerOptions options_;
  ShareSteering shares_;
  LocalGroups groups_;
  Comm inner_;  ///< of the ranks that train one replica
  std::shared_ptr<Local> local_;
  Exec executor_;
  std::int64_t budget_ = 0;
  std::function<std::string(Trainer&, const Run&)> make_plan_;
  std::string memory_plan_;
  std::int64_t steps_ = 0;
  double fraction_ = 0;
};

}  // namespace krama::train
