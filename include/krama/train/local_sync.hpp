// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/partition.hpp>
#include <krama/kernels/difference.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/program/gather_numbers.hpp>

namespace krama::train {

enum class LocalRule : std::uint8_t {
  blocking,  ///< average, then go on
  cocod,     ///< average while the next local steps run
  diloco,    ///< an outer optimizer steps along the averaged difference
};

struct LocalSyncOptions {
  LocalRule rule = LocalRule::blocking;
  std::int64_t local_steps = 1;  ///< of a round, on every rank
  double outer_rate = 1.0;       ///< diloco; 0.7 in its paper
  double outer_momentum = 0.0;   ///< diloco, Nesterov's form; 0.9 in its paper; 0: none
};

/// What must be kept to go on with the same bits: whole on every rank, at the end of a round.
template <class A>
struct LocalSyncState {
  std::vector<A> anchor;
  std::vector<A> velocity;
  std::int64_t rounds = 0;
};

/// Rounds of local steps between ranks with a slow border. Each rank trains its own replica for k
/// steps; then the replicas' differences from the values that all agreed on last (the anchor a) are
/// averaged with the weights n of the samples that they saw:
///
///     g = sum_i n_i (a - x_i) / sum_i n_i;   a <- a - rate (g + momentum's part);   x_i <- a.
///
/// `blocking`: rate 1, no momentum. `diloco`: DiLoCo (Douillard et al. 2023), Nesterov's momentum.
/// `cocod`: CoCoD-SGD (Shen et al. 2019): the sum of the replicas s_i as they were when a round ended
/// travels while the next round is computed, then x_i <- a + (x_i - s_i).
/// Each element of the anchor is updated by one owner and copied to the others: its bits are the same
/// on every rank after each round.
///
/// The constructor, `after_step`, `settle`, `save` and `restore` are collective over comm.
template <Device D, Scalar T, class Comm>
class LocalSync {
 public:
  using E = exec_of<D>;
  using M = mem_of<D>;
  using A = accum_t<T>;

  /// All replicas must hold the same values. \throws Error on every rank for options that make no
  /// sense or that differ among the ranks, and for models with buffers.
  LocalSync(const E& exec, ParamStore<T, M>& store, Comm comm, LocalSyncOptions options)
      : exec_(exec), store_(&store), comm_(std::move(comm)), options_(options) {
    check();
    const std::int64_t n = store.size();
    partition_ = Partition::even(n, comm_.size(), chunk_size);
    anchor_ = Tensor<A, 1, M>(exec, "krama::train::anchor", {n});
    sent_ = Tensor<A, 1, M>(exec, "krama::train::sent", {n});
    velocity_ = Tensor<A, 1, M>(exec, "krama::train::velocity", {n});
    if (options_.rule == LocalRule::cocod) {
      snapshot_ = Tensor<A, 1, M>(exec, "krama::train::snapshot", {n});
    }
    copy(exec_, anchor_.ref(), store.values());
    fill(exec_, velocity_.ref(), A{0});
  }

  /// After each local step of this rank on samples of that weight; ends a round after k of them.
  /// \return whether a round has ended
  bool after_step(double weight) {
    KRAMA_EXPECTS(std::isfinite(weight) && weight >= 0, "local step: a weight of {}", weight);
    weight_ += weight;
    if (++steps_ < options_.local_steps) {
      if (sum_) sum_->poll();
      return false;
    }
    if (options_.rule != LocalRule::cocod) {
      settle();
      return true;
    }
    catch_up();
    copy(exec_, snapshot_.ref(), store_->values());
    start(snapshot_.ref());
    store_->refresh_working(exec_);
    return true;
  }

  /// Ends what is under way and the round that has begun: all replicas hold the anchor then.
  void settle() {
    catch_up();
    start(store_->values());
    finish();
    copy(exec_, store_->values(), anchor_.ref());
    store_->refresh_working(exec_);
  }

  /// Settles first: what is saved is what training goes on with.
  [[nodiscard]] LocalSyncState<A> save() {
    settle();
    comm_.allgather(exec_, velocity_.ref(), partition_, "outer velocity");
    return {download(exec_, anchor_.cref()), download(exec_, velocity_.cref()), rounds_};
  }
  /// \throws Error when the state is of another model or in the middle of a round.
  void restore(const LocalSyncState<A>& state) {
    const auto n = static_cast<std::size_t>(store_->size());
    KRAMA_EXPECTS(
        state.anchor.size() == n && state.velocity.size() == n,
        "local rounds: a saved anchor of {} and velocity of {} elements; this model has {}",
        state.anchor.size(), state.velocity.size(), n);
    KRAMA_EXPECTS(steps_ == 0 && !under_way_, "local rounds: restored in the middle of a round");
    upload(exec_, anchor_.ref(), std::span<const A>(state.anchor));
    upload(exec_, velocity_.ref(), std::span<const A>(state.velocity));
    copy(exec_, store_->values(), anchor_.ref());
    store_->refresh_working(exec_);
    rounds_ = state.rounds;
  }

  /// Averages made so far.
  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  /// The values that all ranks agreed on last.
  [[nodiscard]] TensorRef<A, 1, M> anchor() const { return anchor_.ref(); }

 private:
  void check() {
    const std::array<double, 4> mine{static_cast<double>(options_.rule),
                                     static_cast<double>(options_.local_steps), options_.outer_rate,
                                     options_.outer_momentum};
    const auto all = gather_numbers(comm_, mine, "options of local rounds");
    for (std::size_t r = 1; r < all.size(); ++r) {
      KRAMA_EXPECTS(all[r] == all[0],
                    "local rounds: the options of rank {} are not those of rank 0", r);
    }
    KRAMA_EXPECTS(options_.local_steps >= 1, "local rounds of {} steps; wanted 1 or more",
                  options_.local_steps);
    KRAMA_EXPECTS(options_.outer_rate > 0 && std::isfinite(options_.outer_rate),
                  "local rounds: an outer rate of {}", options_.outer_rate);
    KRAMA_EXPECTS(options_.outer_momentum >= 0 && options_.outer_momentum < 1,
                  "local rounds: an outer momentum of {}; wanted 0 or more, below 1",
                  options_.outer_momentum);
    KRAMA_EXPECTS(options_.rule == LocalRule::diloco ||
                      (options_.outer_rate == 1.0 && options_.outer_momentum == 0.0),
                  "local rounds: an outer rate of {} and momentum of {}, which only diloco has",
                  options_.outer_rate, options_.outer_momentum);
    KRAMA_EXPECTS(!store_->has_buffers(),
                  "local rounds: the model has buffers (BatchNorm), which cannot be averaged");
  }

  /// Begins to sum the differences of `replica` from the anchor.
  void start(TensorRef<A, 1, M> replica) {
    kernels::scaled_difference(exec_, sent_.ref(), static_cast<A>(weight_), anchor_.ref(), replica);
    sum_ = comm_.start_reduce_scatter(exec_, sent_.ref(), partition_, "local differences");
    sent_weight_ = std::exchange(weight_, 0.0);
    steps_ = 0;
    under_way_ = true;
  }

  /// Waits for the sum and moves the anchor. Where no rank had samples it stays.
  void finish() {
    if (sum_) sum_->wait();
    sum_.reset();
    under_way_ = false;
    std::array<double, 1> total{sent_weight_};
    comm_.sum_in_rank_order(total, "weight of local steps");
    if (!(total[0] > 0)) return;
    const int me = comm_.rank();
    const std::int64_t begin = partition_.begin(me);
    const std::int64_t count = partition_.count(me);
    optim::UpdateRange<A, M> range;
    range.values = {anchor_.data() + begin, {count}};
    range.grads = {sent_.data() + begin, {count}};
    range.states[0] = {velocity_.data() + begin, {count}};
    range.attributes = {store_->attributes().data() + begin / chunk_size,
                        {(count + chunk_size - 1) / chunk_size}};
    optim::Sgd outer;
    outer.momentum = options_.outer_momentum;
    outer.nesterov = options_.outer_momentum > 0;
    ++rounds_;
    if (count > 0) {
      outer.template update<D, A>(exec_, range, {options_.outer_rate, 1.0 / total[0], rounds_});
    }
    comm_.allgather(exec_, anchor_.ref(), partition_, "anchor of local rounds");
  }

  /// Ends a sum that ran beside local steps: x <- a + (x - s).
  void catch_up() {
    if (!under_way_) return;
    finish();
    kernels::scaled_difference(exec_, snapshot_.ref(), A{1}, store_->values(), snapshot_.ref());
    kernels::add(exec_, store_->values(), anchor_.ref(), snapshot_.ref());
  }

  E exec_;
  ParamStore<T, M>* store_;
  Comm comm_;
  LocalSyncOptions options_;
  Partition partition_;
  Tensor<A, 1, M> anchor_;
  Tensor<A, 1, M> sent_;      ///< weighted differences, being summed
  Tensor<A, 1, M> velocity_;  ///< of the outer optimizer; valid in this rank's piece
  Tensor<A, 1, M> snapshot_;  ///< cocod: the replica whose difference is under way
  Pending sum_;
  bool under_way_ = false;
  double weight_ = 0;
  double sent_weight_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t rounds_ = 0;
};

}  // namespace krama::train
