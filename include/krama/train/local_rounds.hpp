// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include <krama/program/fingerprint.hpp>
#include <krama/program/gather_numbers.hpp>
#include <krama/program/owner_update.hpp>
#include <krama/train/local_groups.hpp>
#include <krama/train/local_sync.hpp>

namespace krama::train {

/// Rounds of local steps for a trainer: the steps of a round are this group's own business, one
/// agreement of all ranks ends it, and LocalSync averages. Everything that a step does to its gradient
/// (clipping, the scale of the loss, a step skipped because of it) is done by each group for its own
/// mean gradient; the averaged difference is taken as it is.
template <Device D, Scalar T, class Comm>
class LocalRounds {
 public:
  using Sync = LocalSync<D, T, Comm>;

  /// `inner`: of the ranks that train one replica together. Collective over comm.
  /// \throws Error on every rank, see LocalSync
  LocalRounds(const exec_of<D>& exec, ParamStore<T, mem_of<D>>& store, Comm comm, Comm inner,
              const LocalSyncOptions& options)
      : exec_(exec),
        store_(&store),
        comm_(comm),
        inner_(std::move(inner)),
        sync_(exec, store, std::move(comm), options) {}

  /// Before the first round of a call of fit: goes on from the store's values, whoever changed them.
  /// \throws Error on every rank when they are not the same on all
  void begin(std::int64_t steps_done) {
    check_same_values(comm_, exec_, *store_, steps_done);
    sync_.follow_values();
  }

  /// One round: `step(n)` does step n and gives its outcome, for n from `first`. Collective over comm.
  ///
  /// What it returns is of all ranks and steps: loss and weight are sums, the norm of the gradient is
  /// the mean of the groups' norms by weight, the scale of the loss the smallest, `rank_seconds` the
  /// mean of a rank's steps; `skipped` when a group has skipped a step. Loss and norm of skipped steps
  /// are left out.
  /// \throws Error, the same on every rank, when a rank could not do a step or a group's gradient was
  /// not finite; all replicas hold the average of the last round then
  template <class Step>
  StepOutcome run(std::int64_t first, std::int64_t steps, const Step& step) {
    News mine;
    std::string failure;
    try {
      for (std::int64_t n = first; n < first + steps; ++n) {
        const StepOutcome o = step(n);
        KRAMA_EXPECTS(o.finite || o.skipped,
                      "step {}: the gradient or the loss is not finite; lower the learning rate, "
                      "clip gradients, or look for bad samples",
                      n + 1);
        mine.add(o, inner_.rank());
        sync_.count_step(leads() && o.finite ? o.weight : 0.0);
      }
    } catch (const std::exception& e) {
      failure = e.what();
      if (failure.empty()) failure = "unknown error";
    }
    mine.failed = failure.empty() ? 0 : 1;
    const StepOutcome all = agree(mine, failure, steps);
    sync_.end_round();
    return all;
  }

  void poll() { sync_.poll(); }
  void settle() { sync_.settle(); }
  template <class F>
  void with_anchor(const F& f) {
    sync_.with_anchor(f);
  }
  [[nodiscard]] Sync& sync() { return sync_; }

 private:
  /// What a rank tells the others at the end of a round.
  struct News {
    double loss_sum = 0;
    double weight = 0;
    double norm = 0;     ///< times weight
    double skipped = 0;  ///< steps
    double scale = 0;    ///< of the loss, the smallest
    double seconds = 0;  ///< of this rank's steps
    double failed = 0;

    void add(const StepOutcome& o, int rank) {
      seconds += o.rank_seconds[static_cast<std::size_t>(rank)];
      scale = scale == 0 ? o.loss_scale : std::min(scale, o.loss_scale);
      if (!o.finite) {
        skipped += 1;
        return;
      }
      loss_sum += o.loss_sum;
      weight += o.weight;
      norm += o.grad_norm * o.weight;
    }
  };

  /// The first rank of a group gives its numbers.
  [[nodiscard]] bool leads() const { return inner_.rank() == 0; }

  StepOutcome agree(const News& mine, const std::string& failure, std::int64_t steps) {
    const double once = leads() ? 1.0 : 0.0;
    const std::array<double, 7> v{once * mine.loss_sum, once * mine.weight, once * mine.norm,
                                  mine.skipped,         mine.scale,         mine.seconds,
                                  mine.failed};
    const auto all = gather_numbers(comm_, v, "round agreement");
    StepOutcome o;
    double norm = 0;
    bool failed = false;
    o.loss_scale = all[0][4];
    for (const auto& rank : all) {
      o.loss_sum += rank[0];
      o.weight += rank[1];
      norm += rank[2];
      o.skipped = o.skipped || rank[3] > 0;
      o.loss_scale = std::min(o.loss_scale, rank[4]);
      o.rank_seconds.push_back(rank[5] / static_cast<double>(steps));
      failed = failed || rank[6] > 0;
    }
    if (failed) throw_everywhere(failure);
    o.finite = !o.skipped;
    o.grad_norm = o.weight > 0 ? norm / o.weight : 0.0;
    return o;
  }
  [[noreturn]] void throw_everywhere(const std::string& failure) {
    const auto reasons = comm_.gather_text(failure, "why the round failed");
    sync_.give_up_round();
    std::string why;
    for (std::size_t r = 0; r < reasons.size(); ++r) {
      if (!reasons[r].empty()) why += fmt::format("; rank {}: {}", r, reasons[r]);
    }
    throw Error("a round of local steps failed, parameters are those of the round before" + why);
  }

  exec_of<D> exec_;
  ParamStore<T, mem_of<D>>* store_;
  Comm comm_;
  Comm inner_;
  Sync sync_;
};

}  // namespace krama::train
