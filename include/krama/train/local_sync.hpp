// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/partition.hpp>
#include <krama/kernels/difference.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/program/gather_numbers.hpp>
#include <krama/train/local_options.hpp>

namespace krama::train {

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
/// on every rank after each round. Ranks that train one replica together give its weight once: one of
/// them gives it, the others 0.
///
/// `after_step` (where it ends a round), `end_round`, `settle`, `give_up_round`, `with_anchor`, `save`,
/// `restore`, `start_over` and the constructor are collective over comm.
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
    count_step(weight);
    if (steps_ < options_.local_steps) return false;
    end_round();
    return true;
  }
  /// For loops that end rounds themselves: counts a step. Not collective.
  void count_step(double weight) {
    KRAMA_EXPECTS(std::isfinite(weight) && weight >= 0, "local step: a weight of {}", weight);
    weight_ += weight;
    ++steps_;
    poll();
  }
  /// Ends the round, after however many steps, the same number on every rank.
  void end_round() {
    if (options_.rule != LocalRule::cocod) return settle();
    catch_up();
    copy(exec_, snapshot_.ref(), store_->values());
    start(snapshot_.ref());
    is_behind_ = under_way_;
    store_->refresh_working(exec_);
  }
  /// Goes on with the sum that is under way beside local steps. Not collective.
  void poll() {
    if (sum_) sum_->poll();
  }

  /// Ends what is under way and the round that has begun: all replicas hold the anchor then.
  void settle() {
    catch_up();
    if (steps_ == 0) {
      // The replica was x = s, so that it is the anchor already; only its copy for layers is not.
      store_->refresh_working(exec_);
      return;
    }
    start(store_->values());
    if (under_way_) finish();
    go_to_anchor();
  }
  /// Drops the steps of the round that has begun: all replicas hold the anchor then.
  void give_up_round() {
    if (under_way_) finish();
    is_behind_ = false;
    steps_ = 0;
    weight_ = 0;
    go_to_anchor();
  }
  /// Calls f with all replicas at the average of the last round, then goes on as if it had not been
  /// called: f changes no values. Between rounds only.
  template <class F>
  void with_anchor(const F& f) {
    KRAMA_EXPECTS(steps_ == 0, "local rounds: the anchor is asked for after {} steps of a round",
                  steps_);
    if (!is_behind_) return f();
    if (under_way_) finish();
    go_to_anchor();
    std::exception_ptr error;
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
    copy(exec_, store_->values(), snapshot_.ref());
    store_->refresh_working(exec_);
    if (error) std::rethrow_exception(error);
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
    KRAMA_EXPECTS(steps_ == 0 && !is_behind_, "local rounds: restored in the middle of a round");
    upload(exec_, anchor_.ref(), std::span<const A>(state.anchor));
    upload(exec_, velocity_.ref(), std::span<const A>(state.velocity));
    rounds_ = state.rounds;
    go_to_anchor();
  }
  /// Begins anew from the store's values, which must be the same on all ranks.
  void start_over() {
    KRAMA_EXPECTS(steps_ == 0 && !is_behind_, "local rounds: begun anew in the middle of a round");
    copy(exec_, anchor_.ref(), store_->values());
    fill(exec_, velocity_.ref(), A{0});
    rounds_ = 0;
  }
  /// Takes the store's values for the anchor, if they were changed from outside; the outer momentum
  /// stays. They must be the same on all ranks. Between rounds only.
  void follow_values() {
    KRAMA_EXPECTS(steps_ == 0 && !is_behind_, "local rounds: followed in the middle of a round");
    copy(exec_, anchor_.ref(), store_->values());
  }

  /// Averages made so far.
  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  /// The values that all ranks agreed on last.
  [[nodiscard]] TensorRef<A, 1, M> anchor() const { return anchor_.ref(); }
  [[nodiscard]] const LocalSyncOptions& options() const { return options_; }

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
    check_local_options(options_);
    const std::array<double, 1> far{store_->far() ? 1.0 : 0.0};
    const auto all_far = gather_numbers(comm_, far, "where parameters of local rounds lie");
    for (std::size_t r = 0; r < all_far.size(); ++r) {
      KRAMA_EXPECTS(all_far[r][0] == 0,
                    "local rounds: the parameters of rank {} lie in far memory, but anchor and "
                    "differences need near memory of the same size; make its store without a tier",
                    r);
    }
    KRAMA_EXPECTS(!store_->has_buffers(),
                  "local rounds: the model has buffers (BatchNorm), which cannot be averaged");
  }

  void go_to_anchor() {
    copy(exec_, store_->values(), anchor_.ref());
    store_->refresh_working(exec_);
  }

  /// Begins to sum the differences of `replica` from the anchor; where no rank had samples there is
  /// nothing to sum.
  void start(TensorRef<A, 1, M> replica) {
    const double mine = std::exchange(weight_, 0.0);
    steps_ = 0;
    std::array<double, 1> total{mine};
    comm_.sum_in_rank_order(total, "weight of local steps");
    total_ = total[0];
    if (!(total_ > 0)) return;
    kernels::scaled_difference(exec_, sent_.ref(), static_cast<A>(mine), anchor_.ref(), replica);
    sum_ = comm_.start_reduce_scatter(exec_, sent_.ref(), partition_, "local differences");
    under_way_ = true;
  }

  /// Waits for the sum and moves the anchor.
  void finish() {
    if (sum_) sum_->wait();
    sum_.reset();
    under_way_ = false;
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
      outer.template update<D, A>(exec_, range, {options_.outer_rate, 1.0 / total_, rounds_});
    }
    comm_.allgather(exec_, anchor_.ref(), partition_, "anchor of local rounds");
  }

  /// Ends a sum that ran beside local steps: x <- a + (x - s).
  void catch_up() {
    if (!is_behind_) return;
    if (under_way_) finish();
    is_behind_ = false;
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
  bool under_way_ = false;  ///< the anchor has not moved by it yet
  bool is_behind_ = false;  ///< cocod: the replica is not on that anchor yet
  double weight_ = 0;
  double total_ = 0;  ///< of what is under way, over all ranks
  std::int64_t steps_ = 0;
  std::int64_t rounds_ = 0;
};

}  // namespace krama::train
