// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/kernels/reduce.hpp>
#include <krama/optim/clip.hpp>
#include <krama/optim/loss_scale.hpp>
#include <krama/optim/optimizer.hpp>
#include <krama/program/gather_numbers.hpp>
#include <krama/program/gradient_wire.hpp>
#include <krama/program/shard.hpp>

namespace krama {

/// What one step did, the same on every rank.
struct StepOutcome {
  double loss_sum = 0;   ///< weighted sum over the global batch
  double weight = 0;     ///< sum of weights; 0: nothing to learn from, nothing was changed
  double grad_norm = 0;  ///< of the mean gradient, before clipping
  bool finite = true;    ///< false: the gradient held Inf or NaN, nothing was changed
  /// Not finite, and what followed from it: the scale of the loss was lowered, training may go on.
  bool skipped = false;
  double loss_scale = 1;  ///< of this step
  /// Of each rank, from the beginning of the step until its gradients were ready to be reduced:
  /// getting and computing its samples, without waiting for other ranks.
  std::vector<double> rank_seconds;
  [[nodiscard]] double loss() const { return weight > 0 ? loss_sum / weight : 0.0; }
  [[nodiscard]] bool updates() const { return finite && weight > 0; }
};

/// What a rank tells the others before anybody updates.
struct StepNews {
  double loss_sum = 0;  ///< of its samples
  double weight = 0;
  double seconds = 0;       ///< see StepOutcome::rank_seconds
  double squared_norm = 0;  ///< of the summed gradients that it owns
  bool broken = false;      ///< it could not do its part of the step
};

/// The half of a step behind the last backward: sums gradients to their owners, agrees on what the
/// step was, updates and gathers. Holds the optimizer's state of the pieces that this rank owns.
///
/// Gradients are weighted *sums* until the update, which divides once by the weight of the global
/// batch: so the split over ranks and micro-batches cannot change what is averaged.
///
/// Where the loss is scaled (optim/loss_scale.hpp), gradients are these sums times the scale, a power
/// of two, until the update divides by it too.
///
/// Buffers go the way of gradients: what a layer proposes as a buffer's next value is reduced to its
/// owner (from one rank, the others give zeros), committed there when the step updates, and gathered.
template <Device D, Scalar T, class Optimizer, class Comm>
class OwnerUpdate {
 public:
  using E = exec_of<D>;
  using M = mem_of<D>;
  using A = accum_t<T>;
  using Store = ParamStore<T, M>;

  OwnerUpdate(const E& exec, Store& store, Optimizer optimizer, Comm comm, Shard shard,
              double clip_norm, const optim::LossScaling& scaling, const WireOptions& wire = {})
      : exec_(exec),
        store_(&store),
        optimizer_(std::move(optimizer)),
        comm_(std::move(comm)),
        shard_(std::move(shard)),
        clip_norm_(clip_norm),
        scaler_(scaling),
        wire_(wire, parameter_elements(shard_), comm_.rank(), comm_.size()) {
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      states_[s] = FlatArray<A, M>(exec, "krama::program::state", shard_.owned(), store.far());
      fill(exec, states_[s].ref(), A{0});
    }
  }

  /// Begins to sum bucket k to its owners. Of a bucket of buffers the values of rank `buffer_source`
  /// are taken, as they are, whatever the wire format of gradients.
  void reduce(int k, int buffer_source) {
    if (shard_.holds_buffers(k) && comm_.rank() != buffer_source) {
      fill(exec_, bucket_of(store_->grads(), k), A{0});
    }
    // Few are under way at a time, the same number on every rank.
    constexpr std::size_t most = 16;
    if (sums_.size() == most) await_oldest();
    const auto wire = shard_.holds_buffers(k) ? WireEncoding{} : wire_.encoding(shard_.bucket(k));
    sums_.emplace_back(
        k, comm_.start_reduce_scatter(exec_, bucket_of(store_->grads(), k), shard_.partition(k),
                                      "gradients of bucket " + std::to_string(k), wire));
  }
  /// Goes on with sums under way.
  void poll() {
    for (auto& [bucket, sum] : sums_) {
      if (sum) sum->poll();
    }
  }
  /// Waits until the sums of bucket k are there.
  void await_reduce(int k) {
    const auto is_k = [k](const auto& sum) { return sum.first == k; };
    while (std::any_of(sums_.begin(), sums_.end(), is_k)) await_oldest();
  }

  /// Of the summed gradients that this rank owns, scaled as the loss. Fences `exec`. Not collective.
  /// \throws OutOfMemory: on devices the reduction needs some memory
  [[nodiscard]] double squared_norm() const {
    double sum = 0;
    for (int k = 0; k < shard_.parameter_buckets(); ++k) {
      sum += kernels::squared_norm(exec_, TensorRef<const A, 1, M>(owned_of(store_->grads(), k)));
    }
    return sum;
  }

  /// The second agreement: what every rank must know before anybody updates. `mine` is of the scaled
  /// loss.
  /// \throws Error on every rank where the ranks scale it differently
  /// \return the ranks that could not do their part, the same everywhere; nothing may be updated if
  /// there are any
  std::vector<int> agree(const StepNews& mine) {
    const double scale = scaler_.scale();
    // Loss, weight, squared norm and non-finite pieces are added up in rank order.
    std::array<double, 7> v{mine.loss_sum / scale,
                            mine.weight / scale,
                            mine.squared_norm / scale / scale,
                            0,
                            mine.seconds,
                            mine.broken ? 1.0 : 0.0,
                            scale};
    // A sum of squares is finite exactly when every gradient is, in double for float gradients.
    if (!std::isfinite(v[2])) {
      v[2] = 0;
      v[3] = 1;
    }
    const auto all = gather_numbers(comm_, v, "step agreement");
    v = {};
    std::vector<int> broken;
    for (const auto& rank : all) {
      if (rank[5] > 0) broken.push_back(static_cast<int>(outcome_.rank_seconds.size()));
      for (std::size_t i = 0; i < 4; ++i) v[i] += rank[i];
      outcome_.rank_seconds.push_back(rank[4]);
    }
    check_same_scale(all);
    outcome_.loss_scale = scale;
    outcome_.loss_sum = v[0];
    outcome_.weight = v[1];
    outcome_.finite = v[3] == 0 && std::isfinite(v[0]);
    outcome_.grad_norm = v[1] > 0 ? std::sqrt(v[2]) / v[1] : 0.0;
    scale_ = v[1] > 0 ? 1.0 / v[1] / scale : 0.0;
    if (clip_norm_ > 0) scale_ = scale_ * optim::clip_factor(outcome_.grad_norm, clip_norm_);
    return broken;
  }

  void update(int k, double lr) {
    if (!outcome_.updates() || shard_.count(k) == 0) return;
    if (shard_.holds_buffers(k)) {
      copy(exec_, owned_of(store_->values(), k), owned_of(store_->grads(), k));
      return;
    }
    optim::UpdateRange<A, M> range;
    range.values = owned_of(store_->values(), k);
    range.grads = owned_of(store_->grads(), k);
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      range.states[s] = {states_[s].data() + shard_.packed(k), {shard_.count(k)}};
    }
    range.attributes = {store_->attributes().data() + shard_.begin(k) / chunk_size,
                        {(shard_.count(k) + chunk_size - 1) / chunk_size}};
    optimizer_.template update<D, A>(exec_, range, {lr, scale_, updates_ + 1});
  }

  void gather(int k) {
    if (!outcome_.updates()) return;
    comm_.allgather(exec_, bucket_of(store_->values(), k), shard_.partition(k),
                    "values of bucket " + std::to_string(k));
    if (k + 1 == shard_.bucket_count()) store_->refresh_working(exec_);
  }

  /// Begins a step whose outcome is not known yet, and ends one: counts it if it updated, and chooses
  /// the scale of the next one. `learns`: it will update.
  void begin_step(std::uint64_t seed, std::uint32_t number, bool learns) {
    outcome_ = {};
    wire_.begin_step(seed, number, scaler_.scale(), learns);
  }
  void end_step() {
    wire_.end_step(outcome_.updates());
    if (outcome_.updates()) ++updates_;
    if (outcome_.updates() || !outcome_.finite) {
      outcome_.skipped = scaler_.after_step(outcome_.finite) && !outcome_.finite;
    }
  }

  [[nodiscard]] const StepOutcome& outcome() const { return outcome_; }
  [[nodiscard]] optim::LossScaler& loss_scaler() { return scaler_; }
  [[nodiscard]] const optim::LossScaler& loss_scaler() const { return scaler_; }
  [[nodiscard]] const Shard& shard() const { return shard_; }
  [[nodiscard]] const GradientWire& wire() const { return wire_; }
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] TensorRef<A, 1, M> state(int s) const {
    return states_[static_cast<std::size_t>(s)].ref();
  }
  /// Number of updates made; the `step` of the next one is this plus 1.
  [[nodiscard]] std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t n) { updates_ = n; }

 private:
  static std::int64_t parameter_elements(const Shard& shard) {
    const int buckets = shard.parameter_buckets();
    return buckets > 0 ? shard.bucket(buckets - 1).end : 0;
  }
  void await_oldest() {
    if (sums_.front().second) sums_.front().second->wait();
    sums_.pop_front();
  }
  static void check_same_scale(const std::vector<std::vector<double>>& all) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      KRAMA_EXPECTS(all[r][6] == all[0][6],
                    "rank 0 scales the loss by {}, rank {} by {}; give all ranks the same "
                    "loss_scaling, and the same precision",
                    all[0][6], r, all[r][6]);
    }
  }
  [[nodiscard]] TensorRef<A, 1, M> bucket_of(TensorRef<A, 1, M> flat, int k) const {
    const auto& b = shard_.bucket(k);
    return {flat.data() + b.begin, {b.size()}};
  }
  [[nodiscard]] TensorRef<A, 1, M> owned_of(TensorRef<A, 1, M> flat, int k) const {
    return {flat.data() + shard_.begin(k), {shard_.count(k)}};
  }

  E exec_;
  Store* store_;
  Optimizer optimizer_;
  Comm comm_;
  Shard shard_;
  double clip_norm_;
  optim::LossScaler scaler_;
  GradientWire wire_;
  std::array<FlatArray<A, M>, Optimizer::states> states_;
  std::deque<std::pair<int, Pending>> sums_;  ///< bucket and its sum under way, oldest first
  StepOutcome outcome_;
  double scale_ = 0;
  std::int64_t updates_ = 0;
};

}  // namespace krama
