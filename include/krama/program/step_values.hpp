// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <krama/memory/arena.hpp>
#include <krama/nn/model.hpp>
#include <krama/plan/step_memory.hpp>

namespace krama {

/// What a planner must know of a model for micro-batches of up to `samples` samples.
template <Device D, Scalar T>
plan::StepSizes step_sizes(const nn::Model<D, T>& model, std::int64_t samples) {
  plan::StepSizes sizes;
  for (int v = 0; v < static_cast<int>(model.values().size()); ++v) {
    const auto& info = model.values()[static_cast<std::size_t>(v)];
    const std::int64_t elements = model.shape({v}, samples).size();
    sizes.values.push_back({checked_product(elements, size_of(info.dtype)),
                            info.differentiable || v == model.output_value().index});
  }
  for (int b = 0; b < model.block_count(); ++b) {
    const nn::BlockNeeds n = model.needs(b, samples);
    plan::StepSizes::Block block{n.stash, n.scratch, n.reads_input, n.reads_output, {}, 0};
    for (const auto v : model.reads(b)) block.reads.push_back(v.index);
    block.writes = model.writes(b).index;
    sizes.blocks.push_back(std::move(block));
  }
  sizes.input = model.input_value().index;
  sizes.output = model.output_value().index;
  return sizes;
}

/// A model's values, gradients and block memory in one arena, resolved per call from a plan, for
/// micro-batches of any size up to the planned one. Runs single blocks; knows no order. The budget is
/// checked at once, the memory taken when the first micro-batch begins.
template <Device D, Scalar T>
class StepValues {
 public:
  using M = mem_of<D>;
  using Value = AnyRef<M>;

  StepValues(const exec_of<D>& exec, const nn::Model<D, T>& model, const ParamStore<T, M>& store,
             const plan::StepMemory& memory, std::int64_t budget, Collective* group)
      : exec_(exec), model_(&model), memory_(memory), group_(group), place_(memory.value) {
    Arena<M>::check(label, memory.peak, budget);
    // Parameters of a far store come and go: see place_params.
    for (int b = 0; b < model.block_count(); ++b) {
      views_.push_back(store.far() ? std::vector<nn::ParamView<T>>{} : model.views(b, store, true));
    }
    gradient_written_.resize(model.values().size());
  }

  /// The micro-batch that the next calls work on.
  void begin(const nn::BatchInfo& batch) {
    batch_ = batch;
    place_ = memory_.value;
    if (arena_.bytes() < memory_.peak) arena_ = Arena<M>(exec_, label, memory_.peak);
    gradient_written_.assign(gradient_written_.size(), false);
  }

  [[nodiscard]] Value value(nn::ValueId v) const {
    return at(place_[static_cast<std::size_t>(v.index)], v);
  }
  /// Null where nobody wants it.
  [[nodiscard]] Value gradient(nn::ValueId v) const {
    if (!wants_gradient(v)) return {nullptr, model_->value(v).dtype, shape(v)};
    return at(memory_.gradient[static_cast<std::size_t>(v.index)], v);
  }
  /// Says that somebody outside the blocks (the loss) wrote the gradient of `v`.
  void gradient_is_written(nn::ValueId v) {
    gradient_written_[static_cast<std::size_t>(v.index)] = true;
  }

  /// Where block b finds its parameters from now on; nowhere if they are not there.
  void place_params(int b, std::vector<nn::ParamView<T>> views) {
    views_[static_cast<std::size_t>(b)] = std::move(views);
  }

  /// The values that travel with block b are at their places for backward.
  void came_back(int b) {
    for (const int v : memory_.travellers[static_cast<std::size_t>(b)]) is_again({v});
  }
  [[nodiscard]] std::byte* memory_at(std::int64_t offset) const { return arena_.at(offset); }

  /// `for_backward`: again, just for what backward needs; the output is written to where backward
  /// looks for it.
  void forward(int b, bool training, bool for_backward) {
    gather_reads(b);
    if (for_backward) is_again(model_->writes(b));
    model_->block_at(b).forward(context(b, training, for_backward), reads_,
                                value(model_->writes(b)));
  }

  void backward(int b) {
    const nn::ValueId out = model_->writes(b);
    // Nobody read this block's output, so nothing flows back through it.
    if (!gradient_written_[static_cast<std::size_t>(out.index)]) return;
    gather_reads(b);
    gradients_.clear();
    std::int64_t beside = memory_.fan_out;
    for (const auto v : model_->reads(b)) {
      Value g = gradient(v);
      // Another reader, or this block itself through another of its inputs, writes it too.
      const bool shared = gradient_written_[static_cast<std::size_t>(v.index)] ||
                          std::any_of(gradients_.begin(), gradients_.end(),
                                      [&](const Value& other) { return other.data == g.data; });
      if (!g.null() && shared) {
        g.data = arena_.at(beside);
        beside += plan::StepMemory::round_up(g.bytes());
      }
      gradients_.push_back(g);
    }
    model_->block_at(b).backward(context(b, true, true), reads_, value(out), gradient(out),
                                 gradients_);
    std::size_t i = 0;
    for (const auto v : model_->reads(b)) {
      const Value g = gradient(v);
      if (!g.null() && gradients_[i].data != g.data) {
        auto sum = g.template as<T, 1>();
        kernels::add(exec_, sum, sum, gradients_[i].template as<T, 1>());
      }
      gradient_written_[static_cast<std::size_t>(v.index)] = !g.null();
      ++i;
    }
  }

  [[nodiscard]] const nn::BatchInfo& batch() const { return batch_; }
  [[nodiscard]] std::int64_t bytes() const { return memory_.peak; }

 private:
  static constexpr const char* label = "krama::program::arena";

  [[nodiscard]] Shape shape(nn::ValueId v) const { return model_->shape(v, batch_.samples); }
  [[nodiscard]] Value at(std::int64_t offset, nn::ValueId v) const {
    return {arena_.at(offset), model_->value(v).dtype, shape(v)};
  }
  [[nodiscard]] bool wants_gradient(nn::ValueId v) const {
    return model_->value(v).differentiable || v.index == model_->output_value().index;
  }
  void is_again(nn::ValueId v) {
    const auto k = static_cast<std::size_t>(v.index);
    place_[k] = memory_.value_again[k];
  }
  void gather_reads(int b) {
    reads_.clear();
    for (const auto v : model_->reads(b)) reads_.push_back(value(v));
  }
  nn::Context<D, T> context(int b, bool training, bool for_backward) const {
    const auto k = static_cast<std::size_t>(b);
    // Recomputing a block must not touch buffers a second time.
    return {exec_,
            nn::CallInfo{training, training && !for_backward, group_},
            batch_,
            views_[k],
            model_->block_at(b).bindings(),
            arena_.at(for_backward ? memory_.backward_stash[k] : memory_.forward_stash[k]),
            arena_.at(memory_.scratch)};
  }

  exec_of<D> exec_;
  const nn::Model<D, T>* model_;
  plan::StepMemory memory_;
  Collective* group_;
  std::vector<std::int64_t> place_;  ///< where each value is now
  Arena<M> arena_;
  std::vector<std::vector<nn::ParamView<T>>> views_;
  nn::BatchInfo batch_;
  std::vector<bool> gradient_written_;
  std::vector<Value> reads_;
  std::vector<Value> gradients_;
};

}  // namespace krama
