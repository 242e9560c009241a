// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/kernels/reduce.hpp>
#include <krama/nn/losses/loss.hpp>
#include <krama/optim/clip.hpp>
#include <krama/optim/optimizer.hpp>
#include <krama/plan/plain.hpp>
#include <krama/plan/recompute.hpp>
#include <krama/program/gather_numbers.hpp>
#include <krama/program/shard.hpp>
#include <krama/program/step_values.hpp>
#include <krama/program/trace.hpp>

namespace krama {

struct ExecutorOptions {
  std::int64_t micro_batch = 1;    ///< samples at most at once
  std::int64_t memory_budget = 0;  ///< bytes for values and stashes; 0: no limit
  double clip_norm = 0.0;          ///< global gradient norm at most this; 0: no clipping
  std::int64_t bucket_elements = 1 << 22;
  std::vector<bool> recompute = {};        ///< blocks whose stash is made again; empty: none
  std::vector<double> owner_weights = {};  ///< how parameters are shared out; empty: equally
  std::vector<std::int64_t> owner_bytes =
      {};  ///< of optimizer state that ranks can hold; empty: any
  /// Called when this rank's gradients of a step are ready, before they are reduced, with the samples
  /// and the seconds since the step began. What it does counts as computing; see
  /// testing::EmulatedSpeed.
  std::function<void(std::int64_t samples, double seconds)> after_backward = {};
};

/// What a micro-batch's memory looks like to whoever fills it.
template <Device D, class Loss, Scalar T>
struct MicroBatch {
  AnyRef<mem_of<D>> input;
  Ref<nn::target_of<Loss, T>, 1, D> targets;  ///< one a row, or one an output for regression
  Ref<accum_t<T>, 1, D> weights;              ///< one a row
};

/// What one step did, the same on every rank.
struct StepOutcome {
  double loss_sum = 0;   ///< weighted sum over the global batch
  double weight = 0;     ///< sum of weights; 0: nothing to learn from, nothing was changed
  double grad_norm = 0;  ///< of the mean gradient, before clipping
  bool finite = true;    ///< false: the gradient held Inf or NaN, nothing was changed
  /// Of each rank, from the beginning of the step until its gradients were ready to be reduced:
  /// getting and computing its samples, without waiting for other ranks.
  std::vector<double> rank_seconds;
  [[nodiscard]] double loss() const { return weight > 0 ? loss_sum / weight : 0.0; }
};

/// Runs programs, one instruction after the other, for one rank. It knows how each instruction is
/// done and nothing of why a program looks as it does.
///
/// Gradients are weighted *sums* everywhere until the update, which divides once by the weight of the
/// global batch: so the split over ranks and micro-batches cannot change what is averaged.
template <Device D, Scalar T, class Loss, class Optimizer, class Comm>
class Executor {
 public:
  using E = exec_of<D>;
  using M = mem_of<D>;
  using A = accum_t<T>;
  using Feed = std::function<void(int micro, const MicroBatch<D, Loss, T>&)>;

  Executor(const E& exec, const nn::Model<D, T>& model, ParamStore<T, M>& store, Loss loss,
           Optimizer optimizer, Comm comm, const ExecutorOptions& options)
      : exec_(exec),
        model_(&model),
        store_(&store),
        loss_(std::move(loss)),
        optimizer_(std::move(optimizer)),
        comm_(std::move(comm)),
        options_(options),
        shard_(make_shard()),
        memory_(plan::plan_step_memory(step_program(1), step_sizes(model, options.micro_batch))),
        values_(exec, model, store, memory_, options.memory_budget) {
    const auto output = model.value(model.output_value());
    const Shape out = Model::batched(output.sample, options.micro_batch);
    const std::int64_t rows = out.template collapsed<2>()[0];
    targets_ = Tensor<nn::target_of<Loss, T>, 1, M>(exec, "krama::program::targets",
                                                    {nn::target_elements<Loss>(out)});
    weights_ = Tensor<A, 1, M>(exec, "krama::program::weights", {rows});
    sums_ = Tensor<double, 1, M>(exec, "krama::program::loss_sums", {2});
    loss_scratch_ =
        Tensor<double, 1, M>(exec, "krama::program::loss_scratch", {loss_.scratch_elements(rows)});
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      states_[s] = Tensor<A, 1, M>(exec, "krama::program::state", {shard_.owned()});
      fill(exec, states_[s].ref(), A{0});
    }
    kokkos_ext::fence(exec, "krama::program::executor made");
  }

  /// The step of this rank with `micro_batches` micro-batches, as the options want it.
  [[nodiscard]] plan::Program step_program(int micro_batches) const {
    auto p = plan::plain_step(model_->block_count(), micro_batches, shard_.bucket_count());
    if (options_.recompute.empty()) return p;
    KRAMA_EXPECTS(static_cast<int>(options_.recompute.size()) == model_->block_count(),
                  "recompute names {} blocks, the model has {}", options_.recompute.size(),
                  model_->block_count());
    return plan::with_recompute(p, options_.recompute);
  }

  /// One training step. `first_sample` and `samples` say which part of the global batch is this
  /// rank's; `feed` fills micro-batch after micro-batch. Collective over comm; waits.
  StepOutcome step(std::uint32_t number, std::uint64_t seed, double lr, std::int64_t first_sample,
                   std::int64_t samples, const Feed& feed) {
    const auto micros =
        static_cast<int>((samples + options_.micro_batch - 1) / options_.micro_batch);
    const plan::Program program = step_program(micros);
    batch_ = {first_sample, samples, seed, number};
    lr_ = lr;
    begin_step();
    for (const auto& i : program) timed(i, [&] { execute(i, feed, true); });
    if (updates_now()) ++updates_;
    return outcome_;
  }

  /// Weighted loss sum and weight of this rank's `samples`, without training. Not collective.
  StepOutcome evaluate(std::uint64_t seed, std::int64_t first_sample, std::int64_t samples,
                       const Feed& feed) {
    batch_ = {first_sample, samples, seed, 0};
    fill(exec_, sums_.ref(), 0.0);
    const auto micros = (samples + options_.micro_batch - 1) / options_.micro_batch;
    for (int m = 0; m < micros; ++m) {
      for (auto i : plan::evaluation(model_->block_count())) {
        i.micro = m;
        execute(i, feed, false);
      }
    }
    const auto sums = download(exec_, sums_.ref());
    StepOutcome o;
    o.loss_sum = sums[0];
    o.weight = sums[1];
    return o;
  }

  /// Output of the model for one micro-batch of `samples` samples, without training; valid until the
  /// next call. `feed` fills the input.
  AnyRef<M> predict(std::int64_t samples, const Feed& feed) {
    batch_ = {0, samples, 0, 0};
    for (const auto& i : plan::evaluation(model_->block_count())) {
      if (i.op != plan::Op::loss) execute(i, feed, false);
    }
    return values_.value(model_->output_value());
  }

  [[nodiscard]] const Shard& shard() const { return shard_; }
  [[nodiscard]] const plan::StepMemory& memory() const { return memory_; }
  [[nodiscard]] TensorRef<A, 1, M> state(int s) const {
    return states_[static_cast<std::size_t>(s)].ref();
  }
  [[nodiscard]] const ExecutorOptions& options() const { return options_; }
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] TraceRecorder& trace() { return trace_; }
  /// Number of updates made; the `step` of the next one is this plus 1.
  [[nodiscard]] std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t n) { updates_ = n; }
  /// Runs of all instructions but update and gather: gradients stay in the store, summed to their
  /// owners. For tests and for users' own updates.
  StepOutcome gradients_only(std::uint64_t seed, std::int64_t first_sample, std::int64_t samples,
                             const Feed& feed) {
    const auto micros =
        static_cast<int>((samples + options_.micro_batch - 1) / options_.micro_batch);
    batch_ = {first_sample, samples, seed, 0};
    begin_step();
    for (const auto& i : step_program(micros)) {
      if (i.op == plan::Op::update || i.op == plan::Op::gather) continue;
      execute(i, feed, true);
    }
    return outcome_;
  }

 private:
  using Model = nn::Model<D, T>;
  using Clock = std::chrono::steady_clock;

  Shard make_shard() const {
    std::vector<std::int64_t> ends;
    for (const auto& s : store_->segments()) {
      ends.push_back((s.offset + s.size + chunk_size - 1) / chunk_size * chunk_size);
    }
    std::vector<double> weights = options_.owner_weights;
    if (weights.empty()) weights.assign(static_cast<std::size_t>(comm_.size()), 1.0);
    KRAMA_EXPECTS(static_cast<int>(weights.size()) == comm_.size(),
                  "owner weights: {} given for {} ranks", weights.size(), comm_.size());
    std::vector<std::int64_t> caps;
    if (Optimizer::states > 0) {
      for (const auto bytes : options_.owner_bytes) {
        caps.push_back(bytes / static_cast<std::int64_t>(Optimizer::states * sizeof(A)));
      }
    }
    return Shard(plan::group_buckets(ends, options_.bucket_elements), weights, comm_.rank(), caps);
  }

  void begin_step() {
    outcome_ = {};
    gradients_ready_ = false;
    begin_ = Clock::now();
    fill(exec_, sums_.ref(), 0.0);
  }
  /// This rank's share of the step is computed. Nothing waits here that would not wait in the
  /// reduction that follows.
  void gradients_ready() {
    if (gradients_ready_) return;
    gradients_ready_ = true;
    kokkos_ext::fence(exec_, "krama::program::gradients ready");
    const auto since = [this] {
      return std::chrono::duration<double>(Clock::now() - begin_).count();
    };
    if (options_.after_backward) options_.after_backward(batch_.samples, since());
    my_seconds_ = since();
  }

  template <class F>
  void timed(const plan::Instr& i, F&& f) {
    const double begin = trace_.now_us();
    f();
    // Only a trace needs the end of asynchronous work; otherwise nobody waits here.
    if (trace_.on()) kokkos_ext::fence(exec_, "krama::program::trace");
    if (trace_.on()) trace_.add(i, batch_.step, begin);
  }

  void execute(const plan::Instr& i, const Feed& feed, bool training) {
    using plan::Op;
    switch (i.op) {
      case Op::zero_grads:
        fill(exec_, store_->grads(), A{0});
        break;
      case Op::feed:
        start_micro(i.micro, feed);
        break;
      case Op::forward:
        values_.forward(i.index, training, false);
        break;
      case Op::recompute:
        values_.forward(i.index, training, true);
        break;
      case Op::loss:
        compute_loss(training);
        break;
      case Op::backward:
        values_.backward(i.index);
        break;
      case Op::reduce:
        reduce(i.index);
        break;
      case Op::agree:
        agree();
        break;
      case Op::update:
        update(i.index);
        break;
      case Op::gather:
        gather(i.index);
        break;
    }
  }

  void start_micro(int micro, const Feed& feed) {
    nn::BatchInfo b = batch_;
    const std::int64_t done = micro * options_.micro_batch;
    b.first_sample += done;
    b.samples = std::min(options_.micro_batch, batch_.samples - done);
    values_.begin(b);
    feed(micro, {values_.value(model_->input_value()), targets_now(), weights_now()});
  }
  [[nodiscard]] Ref<const T, 2, D> output_now() const {
    return values_.value(model_->output_value()).template as<T, 2>();
  }
  [[nodiscard]] auto targets_now() const {
    const Shape out = values_.value(model_->output_value()).shape;
    return Ref<nn::target_of<Loss, T>, 1, D>(targets_.data(), {nn::target_elements<Loss>(out)});
  }
  [[nodiscard]] Ref<A, 1, D> weights_now() const {
    return {weights_.data(), {output_now().extent(0)}};
  }

  void compute_loss(bool training) {
    const nn::ValueId out = model_->output_value();
    const Ref<const T, 2, D> y = output_now();
    Ref<T, 2, D> dy(nullptr, y.extents());
    if (training) {
      dy = values_.gradient(out).template as<T, 2>();
      values_.gradient_is_written(out);
    }
    loss_.template operator()<D, T>(exec_, y, targets_now(), weights_now(), sums_.ref(),
                                    loss_scratch_.ref(), dy);
  }

  [[nodiscard]] TensorRef<A, 1, M> bucket_of(TensorRef<A, 1, M> flat, int k) const {
    const auto& b = shard_.bucket(k);
    return {flat.data() + b.begin, {b.size()}};
  }
  [[nodiscard]] TensorRef<A, 1, M> owned_of(TensorRef<A, 1, M> flat, int k) const {
    return {flat.data() + shard_.begin(k), {shard_.count(k)}};
  }

  void reduce(int k) {
    gradients_ready();
    comm_.reduce_scatter(exec_, bucket_of(store_->grads(), k), shard_.partition(k),
                         "gradients of bucket " + std::to_string(k));
  }

  /// The second agreement: what every rank must know before anybody updates.
  void agree() {
    gradients_ready();
    // Loss, weight, squared norm and non-finite pieces are added up in rank order; each rank's time.
    std::array<double, 5> v{};
    const auto sums = download(exec_, sums_.ref());
    v[0] = sums[0];
    v[1] = sums[1];
    for (int k = 0; k < shard_.bucket_count(); ++k) {
      v[2] += kernels::squared_norm(exec_, TensorRef<const A, 1, M>(owned_of(store_->grads(), k)));
    }
    // A sum of squares is finite exactly when every gradient is, in double for float gradients.
    if (!std::isfinite(v[2])) {
      v[2] = 0;
      v[3] = 1;
    }
    v[4] = my_seconds_;
    const auto all = gather_numbers(comm_, v, "step agreement");
    v = {};
    for (const auto& rank : all) {
      for (std::size_t i = 0; i < 4; ++i) v[i] += rank[i];
      outcome_.rank_seconds.push_back(rank[4]);
    }
    outcome_.loss_sum = v[0];
    outcome_.weight = v[1];
    outcome_.finite = v[3] == 0 && std::isfinite(v[0]);
    outcome_.grad_norm = v[1] > 0 ? std::sqrt(v[2]) / v[1] : 0.0;
    scale_ = v[1] > 0 ? 1.0 / v[1] : 0.0;
    if (options_.clip_norm > 0) {
      scale_ = scale_ * optim::clip_factor(outcome_.grad_norm, options_.clip_norm);
    }
  }
  [[nodiscard]] bool updates_now() const { return outcome_.finite && outcome_.weight > 0; }

  void update(int k) {
    if (!updates_now() || shard_.count(k) == 0) return;
    optim::UpdateRange<A, M> range;
    range.values = owned_of(store_->values(), k);
    range.grads = owned_of(store_->grads(), k);
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      range.states[s] = {states_[s].data() + shard_.packed(k), {shard_.count(k)}};
    }
    range.attributes = {store_->attributes().data() + shard_.begin(k) / chunk_size,
                        {(shard_.count(k) + chunk_size - 1) / chunk_size}};
    optimizer_.template update<D, A>(exec_, range, {lr_, scale_, updates_ + 1});
  }

  void gather(int k) {
    if (!updates_now()) return;
    comm_.allgather(exec_, bucket_of(store_->values(), k), shard_.partition(k),
                    "values of bucket " + std::to_string(k));
    if (k + 1 == shard_.bucket_count()) store_->refresh_working(exec_);
  }

  E exec_;
  const Model* model_;
  ParamStore<T, M>* store_;
  Loss loss_;
  Optimizer optimizer_;
  Comm comm_;
  ExecutorOptions options_;
  Shard shard_;
  plan::StepMemory memory_;
  StepValues<D, T> values_;
  Tensor<nn::target_of<Loss, T>, 1, M> targets_;
  Tensor<A, 1, M> weights_;
  Tensor<double, 1, M> sums_;
  Tensor<double, 1, M> loss_scratch_;
  std::array<Tensor<A, 1, M>, Optimizer::states> states_;
  TraceRecorder trace_;
  nn::BatchInfo batch_;
  StepOutcome outcome_;
  double lr_ = 0;
  double scale_ = 0;
  Clock::time_point begin_;
  bool gradients_ready_ = false;
  double my_seconds_ = 0;
  std::int64_t updates_ = 0;
};

}  // namespace krama
