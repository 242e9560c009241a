// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/kernels/scale.hpp>
#include <krama/nn/losses/loss.hpp>
#include <krama/optim/loss_scale.hpp>
#include <krama/optim/optimizer.hpp>
#include <krama/plan/offload.hpp>
#include <krama/plan/overlap.hpp>
#include <krama/plan/plain.hpp>
#include <krama/plan/recompute.hpp>
#include <krama/program/instances.hpp>
#include <krama/program/owner_update.hpp>
#include <krama/program/rank_group.hpp>
#include <krama/program/step_values.hpp>
#include <krama/program/swap_lane.hpp>
#include <krama/program/trace.hpp>
#include <krama/program/weight_window.hpp>

namespace krama {

struct ExecutorOptions {
  std::int64_t micro_batch = 1;          ///< samples at most at once
  std::int64_t memory_budget = 0;        ///< bytes for values and stashes; 0: no limit
  double clip_norm = 0.0;                ///< global gradient norm at most this; 0: no clipping
  optim::LossScaling loss_scaling = {};  ///< for f16; the same on every rank; default: none
  std::int64_t bucket_elements = 1 << 22;
  WireOptions wire = {};             ///< how gradients travel; the same on every rank
  bool overlap = true;               ///< sums begin while backward goes on; the bits are the same
  std::vector<bool> recompute = {};  ///< blocks whose stash is made again; empty: none
  plan::Offload offload = {};        ///< a memory plan instead; empty: everything is kept
  SwapOptions swap = {};             ///< where it swaps to
  /// Bytes of near memory for the weights and gradients of a far store (ParamStore), of which as many
  /// blocks as fit are there at a time; a near store needs none.
  std::int64_t weights_budget = 0;
  std::vector<double> owner_weights = {};  ///< how parameters are shared out; empty: equally
  std::vector<std::int64_t> owner_bytes =
      {};  ///< of optimizer state that ranks can hold; empty: any
  /// Called when this rank's gradients of a step are ready, before they are reduced, with the samples
  /// and the seconds since the step began. What it does counts as computing; see
  /// testing::EmulatedSpeed.
  std::function<void(std::int64_t samples, double seconds)> after_backward = {};
  /// Called after each instruction of a step: the turn of messages that travel beside it.
  std::function<void()> after_instruction = {};
};

/// What a micro-batch's memory looks like to whoever fills it.
template <Device D, class Loss, Scalar T>
struct MicroBatch {
  AnyRef<mem_of<D>> input;
  Ref<nn::target_of<Loss, T>, 1, D> targets;  ///< one a row, or one an output for regression
  Ref<accum_t<T>, 1, D> weights;              ///< one a row
};

/// Runs programs, one instruction after the other, for one rank. It knows how each instruction is
/// done and nothing of why a program looks as it does.
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
        comm_(std::move(comm)),
        options_(options),
        group_(model.meets_ranks() && comm_.size() > 1 ? std::make_shared<RankGroup<Comm>>(comm_)
                                                       : nullptr),
        owner_(exec, store, std::move(optimizer), comm_,
               make_shard(store, options.bucket_elements, options.owner_weights,
                          owner_caps(options), comm_.rank(), comm_.size()),
               options.clip_norm, options.loss_scaling, options.wire),
        last_blocks_(last_blocks(model, store, owner_.shard())),
        window_(make_window(exec, model, store, options)),
        memory_(plan::plan_step_memory(step_program(1), step_sizes(model, options.micro_batch))),
        values_(exec, model, store, memory_, options.memory_budget, group_.get()),
        swap_(exec, memory_, options.swap) {
    const auto output = model.value(model.output_value());
    const Shape out = Model::batched(output.sample, options.micro_batch);
    const std::int64_t rows = out.template collapsed<2>()[0];
    targets_ = Tensor<nn::target_of<Loss, T>, 1, M>(exec, "krama::program::targets",
                                                    {nn::target_elements<Loss>(out)});
    weights_ = Tensor<A, 1, M>(exec, "krama::program::weights", {rows});
    sums_ = Tensor<double, 1, M>(exec, "krama::program::loss_sums", {2});
    loss_scratch_ =
        Tensor<double, 1, M>(exec, "krama::program::loss_scratch", {loss_.scratch_elements(rows)});
    kokkos_ext::fence(exec, "krama::program::executor made");
  }

  /// The step of this rank with `micro_batches` micro-batches, as the options want it.
  [[nodiscard]] plan::Program step_program(int micro_batches) const {
    auto p = plan::plain_step(model_->block_count(), micro_batches, owner_.shard().bucket_count());
    if (options_.overlap && comm_.size() > 1) p = plan::with_overlap(p, sums_begin_after());
    return with_window(with_saved(p));
  }

  /// Follows another memory plan from the next step on; parameters and moments stay as they are.
  /// \throws OutOfMemory, TierError when it cannot; the executor is as before then
  void adopt(const plan::Offload& offload) {
    const ExecutorOptions before = options_;
    options_.offload = offload;
    if (!offload.what.empty()) options_.recompute.clear();
    try {
      const auto memory =
          plan::plan_step_memory(step_program(1), step_sizes(*model_, options_.micro_batch));
      StepValues<D, T> values(exec_, *model_, *store_, memory, options_.memory_budget,
                              group_.get());
      swap_ = SwapLane<D, T>(exec_, memory, options_.swap);
      values_ = std::move(values);
      memory_ = memory;
    } catch (...) {
      options_ = before;
      throw;
    }
  }

  /// One training step. `first_sample` and `samples` say which part of the global batch is this
  /// rank's; `feed` fills micro-batch after micro-batch. Collective over comm; waits.
  /// \throws Error, the same on every rank, when one could not do its part (out of memory, a far tier
  /// that fails, a feed that throws); parameters and optimizer state are as before then
  StepOutcome step(std::uint32_t number, std::uint64_t seed, double lr, std::int64_t first_sample,
                   std::int64_t samples, const Feed& feed) {
    batch_ = {first_sample, samples, seed, number};
    lr_ = lr;
    run(begin_step(true), feed, [](plan::Op) { return true; });
    owner_.end_step();
    return owner_.outcome();
  }

  /// Weighted loss sum and weight of this rank's `samples`, without training. Not collective.
  StepOutcome evaluate(std::uint64_t seed, std::int64_t first_sample, std::int64_t samples,
                       const Feed& feed) {
    batch_ = {first_sample, samples, seed, 0};
    fill(exec_, sums_.ref(), 0.0);
    plan::Program all;
    for (int m = 0; m < micro_batches(); ++m) {
      for (auto i : plan::evaluation(model_->block_count())) {
        i.micro = m;
        all.push_back(i);
      }
    }
    if (window_) window_->begin(values_);
    for (const auto& i : with_window(all)) execute(i, feed, false);
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
    if (window_) window_->begin(values_);
    for (const auto& i : with_window(plan::evaluation(model_->block_count()))) {
      if (i.op != plan::Op::loss) execute(i, feed, false);
    }
    return values_.value(model_->output_value());
  }

  [[nodiscard]] const Shard& shard() const { return owner_.shard(); }
  [[nodiscard]] const plan::StepMemory& memory() const { return memory_; }
  [[nodiscard]] plan::StepSizes sizes() const { return step_sizes(*model_, options_.micro_batch); }
  [[nodiscard]] const nn::Model<D, T>& model() const { return *model_; }
  /// The memory of values and stashes, for measurements between steps.
  [[nodiscard]] StepValues<D, T>& values() { return values_; }
  [[nodiscard]] const SwapLane<D, T>& swap() const { return swap_; }
  /// Null where parameters lie in near memory.
  [[nodiscard]] const WeightWindow<D, T>* window() const { return window_.get(); }
  [[nodiscard]] TensorRef<A, 1, M> state(int s) const { return owner_.state(s); }
  [[nodiscard]] const ExecutorOptions& options() const { return options_; }
  [[nodiscard]] const Optimizer& optimizer() const { return owner_.optimizer(); }
  [[nodiscard]] TraceRecorder& trace() { return trace_; }
  /// Number of updates made; the `step` of the next one is this plus 1.
  [[nodiscard]] std::int64_t updates() const { return owner_.updates(); }
  void set_updates(std::int64_t n) { owner_.set_updates(n); }
  /// How gradients travel, and what of them is still to be sent.
  [[nodiscard]] const GradientWire& wire() const { return owner_.wire(); }
  /// The scale of the next step's loss.
  [[nodiscard]] optim::LossScaler& loss_scaler() { return owner_.loss_scaler(); }
  /// Runs of all instructions but update and gather: gradients stay in the store, summed to their
  /// owners. For tests and for users' own updates.
  StepOutcome gradients_only(std::uint64_t seed, std::int64_t first_sample, std::int64_t samples,
                             const Feed& feed) {
    batch_ = {first_sample, samples, seed, 0};
    run(begin_step(false), feed,
        [](plan::Op op) { return op != plan::Op::update && op != plan::Op::gather; });
    if (const double scale = owner_.loss_scaler().scale(); scale != 1.0) {
      const TensorRef<A, 1, M> learnt(store_->grads().data(), {store_->buffers_begin()});
      kernels::scale(exec_, learnt, static_cast<A>(1.0 / scale));
    }
    return owner_.outcome();
  }

 private:
  using Model = nn::Model<D, T>;
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] int micro_batches() const {
    return static_cast<int>((batch_.samples + options_.micro_batch - 1) / options_.micro_batch);
  }
  /// Elements of optimizer state that each rank can own.
  static std::vector<std::int64_t> owner_caps(const ExecutorOptions& options) {
    std::vector<std::int64_t> caps;
    if constexpr (Optimizer::states > 0) {
      for (const auto bytes : options.owner_bytes) {
        caps.push_back(bytes / static_cast<std::int64_t>(Optimizer::states * sizeof(A)));
      }
    }
    return caps;
  }

  static std::unique_ptr<WeightWindow<D, T>> make_window(const E& exec, const Model& model,
                                                         const ParamStore<T, M>& store,
                                                         const ExecutorOptions& options) {
    WeightWindow<D, T>::check(model, store, options.weights_budget);
    if (!store.far()) return nullptr;
    return std::make_unique<WeightWindow<D, T>>(exec, model, store, options.weights_budget,
                                                options.swap);
  }
  /// The step with what blocks save kept, swapped or made again.
  [[nodiscard]] plan::Program with_saved(const plan::Program& p) const {
    if (options_.recompute.empty()) return plan::with_offload(p, options_.offload);
    KRAMA_EXPECTS(options_.offload.what.empty(),
                  "give a memory plan or a list of blocks to recompute");
    KRAMA_EXPECTS(static_cast<int>(options_.recompute.size()) == model_->block_count(),
                  "recompute names {} blocks, the model has {}", options_.recompute.size(),
                  model_->block_count());
    return plan::with_recompute(p, options_.recompute);
  }
  [[nodiscard]] plan::Program with_window(plan::Program p) const {
    return window_ ? window_->with_window(p, last_blocks_) : std::move(p);
  }
  /// The block after whose backward each bucket's sum begins. Gradients that have to leave the window
  /// first leave beside the next block's backward, unless layers speak to other ranks there.
  [[nodiscard]] std::vector<int> sums_begin_after() const {
    std::vector<int> after = last_blocks_;
    if (window_ && !group_) {
      for (int& b : after) --b;
    }
    return after;
  }

  /// What decides in which order layers speak to other ranks a second time.
  [[nodiscard]] std::vector<bool> recomputed() const {
    std::vector<bool> all = options_.recompute;
    for (const plan::Residency r : options_.offload.what) {
      all.push_back(plan::is_recomputed(r));
      all.push_back(r == plan::Residency::chain);
    }
    return all;
  }

  /// The program of a step over `batch_`, agreed with the other ranks where they must be asked.
  plan::Program begin_step(bool learns) {
    owner_.begin_step(batch_.seed, batch_.step, learns);
    broken_.clear();
    if (window_) window_->begin(values_);
    gradients_ready_ = false;
    fill(exec_, sums_.ref(), 0.0);
    agreement_ = {micro_batches(), 0};
    if (comm_.size() > 1 && (group_ || store_->has_buffers())) {
      agreement_ = agree_step(comm_, micro_batches(), recomputed(), group_ != nullptr);
    }
    if (group_) group_->take_seconds();
    begin_ = Clock::now();
    return step_program(agreement_.micro_batches);
  }
  /// This rank's share of the step is computed. Nothing waits here that would not wait in the
  /// reduction that follows. What layers waited for other ranks does not count as computing.
  void gradients_ready() {
    if (gradients_ready_) return;
    gradients_ready_ = true;
    kokkos_ext::fence(exec_, "krama::program::gradients ready");
    const double waited = group_ ? group_->take_seconds() : 0.0;
    const auto since = [this, waited] {
      return std::chrono::duration<double>(Clock::now() - begin_).count() - waited;
    };
    if (options_.after_backward) options_.after_backward(batch_.samples, since());
    my_seconds_ = since();
  }

  /// The chosen instructions of a step. Messages under way get their turn after each.
  template <class Chosen>
  void run(const plan::Program& program, const Feed& feed, Chosen&& chosen) {
    for (const auto& i : program) {
      if (!chosen(i.op)) continue;
      timed(i, [&] { attempt(i, feed); });
      owner_.poll();
      if (options_.after_instruction) options_.after_instruction();
    }
  }

  template <class F>
  void timed(const plan::Instr& i, F&& f) {
    const double begin = trace_.now_us();
    f();
    // Only a trace needs the end of asynchronous work; otherwise nobody waits here.
    if (!trace_.on()) return;
    kokkos_ext::fence(exec_, "krama::program::trace");
    trace_.add(i, batch_.step, begin);
  }

  /// One instruction of a training step. A rank that cannot do its part goes on with what the other
  /// ranks wait for, until all of them agree to stop before anything is updated.
  void attempt(const plan::Instr& i, const Feed& feed) {
    if (!before_update(i.op)) return execute(i, feed, true);
    if (broken_.empty()) {
      do_or_break([&] { execute(i, feed, true); }, i.op == plan::Op::feed);
      if (!broken_.empty()) settle();
    } else if (group_ && meets_ranks(i)) {
      group_->refuse(broken_);
    }
  }
  /// Nothing moves over the link any more.
  void settle() {
    swap_.settle();
    if (window_) window_->settle();
  }
  /// What a rank does for itself, before anybody updates.
  static bool before_update(plan::Op op) {
    return plan::lane_of(op) != plan::Lane::comm && op != plan::Op::update;
  }
  [[nodiscard]] bool meets_ranks(const plan::Instr& i) const {
    using plan::Op;
    return (i.op == Op::forward || i.op == Op::recompute || i.op == Op::backward) &&
           model_->block_at(i.index).meets_ranks();
  }
  /// Does `f`; what keeps only this rank from doing it is noted for the agreement.
  template <class F>
  void do_or_break(F&& f, bool users_code = false) {
    try {
      f();
    } catch (const TierError& e) {
      broken_ = e.what();
    } catch (const OutOfMemory& e) {
      broken_ = e.what();
    } catch (const std::exception& e) {
      if (!users_code || comm_.size() == 1) throw;
      broken_ = e.what();
    }
  }

  void execute(const plan::Instr& i, const Feed& feed, bool training) {
    using plan::Op;
    switch (i.op) {
      case Op::zero_grads:
        store_->clear_grads(exec_);
        break;
      case Op::feed:
        start_micro(i.micro, feed, training);
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
        if (window_ && owner_.shard().holds_buffers(i.index)) window_->send_buffers();
        owner_.reduce(i.index, agreement_.buffer_source);
        break;
      case Op::await_reduce:
        gradients_ready();
        owner_.await_reduce(i.index);
        break;
      case Op::agree:
        agree();
        break;
      case Op::update:
        owner_.update(i.index, lr_);
        break;
      case Op::gather:
        owner_.gather(i.index);
        break;
      case Op::swap_out:
      case Op::await_out:
      case Op::swap_in:
      case Op::await_in:
        swap_.execute(i, values_);
        break;
      case Op::fetch_weights:
      case Op::fetch_grads:
      case Op::await_fetch:
      case Op::drop_weights:
      case Op::send_grads:
      case Op::await_send:
        window_->execute(i, values_);
        break;
    }
  }

  void start_micro(int micro, const Feed& feed, bool training) {
    nn::BatchInfo b = batch_;
    const std::int64_t done = std::min(micro * options_.micro_batch, batch_.samples);
    b.first_sample += done;
    b.samples = std::min(options_.micro_batch, batch_.samples - done);
    values_.begin(b);
    if (b.samples == 0) return;  // only here to take part in what layers say to other ranks
    feed(micro, {values_.value(model_->input_value()), targets_now(), weights_now()});
    // A loss is linear in the weights of its rows, and so is its gradient: scaled weights scale both
    // before anything is rounded to T, whatever the loss.
    const double scale = owner_.loss_scaler().scale();
    if (training && scale != 1.0) kernels::scale(exec_, weights_now(), static_cast<A>(scale));
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
    if (y.extent(0) == 0) return;
    loss_.template operator()<D, T>(exec_, y, targets_now(), weights_now(), sums_.ref(),
                                    loss_scratch_.ref(), dy);
  }

  /// The second agreement: what every rank must know before anybody updates.
  void agree() {
    gradients_ready();
    StepNews mine;
    mine.seconds = my_seconds_;
    if (broken_.empty()) {
      do_or_break([&] {
        const auto sums = download(exec_, sums_.ref());
        mine.loss_sum = sums[0];
        mine.weight = sums[1];
        mine.squared_norm = owner_.squared_norm();
      });
    }
    mine.broken = !broken_.empty();
    const auto broken = owner_.agree(mine);
    if (broken.empty()) return;
    settle();
    std::string why;
    const auto reasons = comm_.gather_text(broken_, "why the step failed");
    for (const int r : broken) {
      why += fmt::format("; rank {}: {}", r, reasons[static_cast<std::size_t>(r)]);
    }
    throw Error(fmt::format("the step failed on {}, parameters are as before it{}",
                            detail::list_ranks(broken), why));
  }

  E exec_;
  const Model* model_;
  ParamStore<T, M>* store_;
  Loss loss_;
  Comm comm_;
  ExecutorOptions options_;
  std::shared_ptr<RankGroup<Comm>> group_;  ///< null: no layer speaks to other ranks
  OwnerUpdate<D, T, Optimizer, Comm> owner_;
  std::vector<int> last_blocks_;  ///< by bucket: its sum may begin after this one's backward
  std::unique_ptr<WeightWindow<D, T>> window_;  ///< null: parameters lie in near memory
  plan::StepMemory memory_;
  StepValues<D, T> values_;
  SwapLane<D, T> swap_;
  std::string broken_;  ///< why this rank cannot do its part of the step; empty: it can
  Tensor<nn::target_of<Loss, T>, 1, M> targets_;
  Tensor<A, 1, M> weights_;
  Tensor<double, 1, M> sums_;
  Tensor<double, 1, M> loss_scratch_;
  TraceRecorder trace_;
  nn::BatchInfo batch_;
  StepAgreement agreement_;
  double lr_ = 0;
  Clock::time_point begin_;
  bool gradients_ready_ = false;
  double my_seconds_ = 0;
};

}  // namespace krama
