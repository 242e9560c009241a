// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <krama/memory/arena.hpp>
#include <krama/memory/swap_link.hpp>
#include <krama/nn/model.hpp>
#include <krama/plan/program.hpp>
#include <krama/plan/step_memory.hpp>
#include <krama/plan/window.hpp>
#include <krama/program/step_values.hpp>

namespace krama {

namespace detail {

/// The segments that a block reads, each once, however many of its layers share it.
template <Device D, Scalar T>
std::vector<const Segment*> segments_of(const nn::Model<D, T>& model,
                                        const ParamStore<T, mem_of<D>>& store, int b) {
  std::vector<const Segment*> all;
  const auto& block = model.block_at(b);
  for (std::int64_t i = 0; i < block.param_count(); ++i) {
    const Segment* s = &store.segment_of(block.first_param() + i);
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
  }
  return all;
}

/// What a segment takes in the window. Buffers have a place of their own.
template <Scalar T>
std::int64_t weight_bytes(const Segment& s) {
  return s.buffer ? 0 : plan::StepMemory::round_up(s.size * std::int64_t{sizeof(T)});
}
template <Scalar T>
std::int64_t gradient_bytes(const Segment& s) {
  return s.frozen ? 0 : plan::StepMemory::round_up(s.size * std::int64_t{sizeof(accum_t<T>)});
}

}  // namespace detail

/// What every block of a model brings into the window.
template <Device D, Scalar T>
plan::WindowSizes window_sizes(const nn::Model<D, T>& model,
                               const ParamStore<T, mem_of<D>>& store) {
  plan::WindowSizes sizes;
  const int n = model.block_count();
  std::vector<std::vector<const Segment*>> learnt(static_cast<std::size_t>(n));
  for (int b = 0; b < n; ++b) {
    std::int64_t weights = 0;
    std::int64_t gradients = 0;
    for (const Segment* s : detail::segments_of(model, store, b)) {
      weights += detail::weight_bytes<T>(*s);
      gradients += detail::gradient_bytes<T>(*s);
      if (!s->frozen) learnt[static_cast<std::size_t>(b)].push_back(s);
    }
    sizes.weights.push_back(weights);
    sizes.gradients.push_back(gradients);
  }
  for (const auto& mine : learnt) {
    sizes.rivals.emplace_back();
    for (int c = 0; c < n; ++c) {
      const auto& theirs = learnt[static_cast<std::size_t>(c)];
      const bool share = &theirs != &mine && std::any_of(mine.begin(), mine.end(), [&](auto* s) {
        return std::find(theirs.begin(), theirs.end(), s) != theirs.end();
      });
      if (share) sizes.rivals.back().push_back(c);
    }
  }
  return sizes;
}

/// The near memory through which the weights and gradients of a far store pass. Does a program's
/// fetches, drops and sends over the link; gives each what it asks for at the place that
/// plan::with_window meant, and tells the blocks where it is. Buffers are small and read again and
/// again: they stay in near memory during a step.
template <Device D, Scalar T>
class WeightWindow {
 public:
  using E = exec_of<D>;
  using M = mem_of<D>;
  using A = accum_t<T>;
  using Store = ParamStore<T, M>;

  /// The least near memory with which such a model trains.
  static std::int64_t smallest(const nn::Model<D, T>& model, const Store& store) {
    return buffer_bytes(store) + window_sizes(model, store).smallest();
  }
  /// \throws Error when options and store do not agree; OutOfMemory, which names the smallest budget
  /// that works, when the budget is too small
  static void check(const nn::Model<D, T>& model, const Store& store, std::int64_t budget) {
    if (!store.far()) {
      KRAMA_EXPECTS(budget == 0,
                    "a budget of {} bytes for weights is given, but they lie in near memory; make "
                    "the store with make_store(exec, seed, krama::TierOptions{{}})",
                    budget);
      return;
    }
    const std::int64_t least = smallest(model, store);
    if (budget >= least) return;
    throw OutOfMemory(label, least, M::name(),
                      fmt::format("the budget for weights is {} bytes (weights_budget); the "
                                  "smallest that works is {}, that of the largest block",
                                  budget, least));
  }

  WeightWindow(const E& exec, const nn::Model<D, T>& model, const Store& store, std::int64_t budget,
               const SwapOptions& swap)
      : exec_(exec), model_(&model), store_(&store), sizes_(window_sizes(model, store)) {
    check(model, store, budget);
    const std::int64_t buffers = buffer_bytes(store);
    bytes_ = std::min(budget - buffers, sizes_.all());
    arena_ = Arena<M>(exec, label, bytes_ + buffers, budget);
    slots_ = plan::Slots(bytes_);
    blocks_.resize(static_cast<std::size_t>(model.block_count()));
    fresh_.resize(store.segments().size());
    link_ = std::make_unique<SwapLink<D>>(exec, 0, swap);
  }

  [[nodiscard]] plan::Program with_window(const plan::Program& program,
                                          const std::vector<int>& last_block) const {
    return plan::with_window(program, sizes_, bytes_, last_block);
  }

  /// A program begins: the window is empty, gradients are zero, buffers are as they are in the store.
  void begin(StepValues<D, T>& values) {
    link_->settle();
    slots_.clear();
    fresh_.assign(fresh_.size(), true);
    for (int b = 0; b < model_->block_count(); ++b) values.place_params(b, {});
    for (const bool next : {false, true}) copy(exec_, near_buffers(next), far_buffers(false));
  }

  void execute(const plan::Instr& i, StepValues<D, T>& values) {
    auto& block = blocks_[static_cast<std::size_t>(i.index)];
    switch (i.op) {
      case plan::Op::fetch_weights:
        block.weights = take(sizes_.weights, i.index);
        block.fetched = link_->in(weight_pieces(i.index, block.weights));
        break;
      case plan::Op::fetch_grads:
        block.gradients = take(sizes_.gradients, i.index);
        block.fetched = link_->in(gradient_pieces(i.index, block.gradients, true));
        break;
      case plan::Op::await_fetch:
        link_->wait(block.fetched);
        values.place_params(i.index, views(i.index));
        break;
      case plan::Op::drop_weights:
        slots_.give_back(std::exchange(block.weights, -1));
        values.place_params(i.index, {});
        break;
      case plan::Op::send_grads:
        block.sent = link_->out(gradient_pieces(i.index, block.gradients, false));
        slots_.give_back(std::exchange(block.gradients, -1));
        values.place_params(i.index, views(i.index));
        break;
      case plan::Op::await_send:
        link_->wait(block.sent);
        break;
      default:
        break;
    }
  }
  /// What layers proposed as next values of buffers goes to the store. Asynchronous on exec.
  void send_buffers() const { copy(exec_, far_buffers(true), near_buffers(true)); }
  /// However a step ended: nothing moves any more.
  void settle() { link_->settle(); }

  /// Near memory taken.
  [[nodiscard]] std::int64_t bytes() const { return arena_.bytes(); }
  [[nodiscard]] std::int64_t moved() const { return link_->moved(); }

 private:
  static constexpr const char* label = "krama::program::weights";
  struct Place {
    std::int64_t weights = -1;    ///< in the window
    std::int64_t gradients = -1;  ///< in the window
    std::int64_t fetched = 0;     ///< ticket of the last fetch
    std::int64_t sent = 0;
  };

  static std::int64_t buffer_count(const Store& store) {
    return store.size() - store.buffers_begin();
  }
  /// Values and next values.
  static std::int64_t buffer_bytes(const Store& store) {
    return 2 * plan::StepMemory::round_up(buffer_count(store) * std::int64_t{sizeof(A)});
  }
  [[nodiscard]] TensorRef<A, 1, M> near_buffers(bool next) const {
    const std::int64_t at = bytes_ + (next ? buffer_bytes(*store_) / 2 : 0);
    return {reinterpret_cast<A*>(arena_.at(at)), {buffer_count(*store_)}};
  }
  [[nodiscard]] TensorRef<A, 1, M> far_buffers(bool next) const {
    const auto flat = next ? store_->grads() : store_->values();
    return {flat.data() + store_->buffers_begin(), {buffer_count(*store_)}};
  }

  std::int64_t take(const std::vector<std::int64_t>& sizes, int b) {
    const std::int64_t at = slots_.take(sizes[static_cast<std::size_t>(b)]);
    KRAMA_EXPECTS(at >= 0, "block {} finds no place in the window; the program is not for it", b);
    return at;
  }
  [[nodiscard]] std::vector<SwapPiece> weight_pieces(int b, std::int64_t at) const {
    std::vector<SwapPiece> all;
    for (const Segment* s : detail::segments_of(*model_, *store_, b)) {
      if (s->buffer) continue;
      all.push_back({arena_.at(at), s->offset * std::int64_t{sizeof(T)},
                     s->size * std::int64_t{sizeof(T)}, store_->working_file()});
      at += detail::weight_bytes<T>(*s);
    }
    return all;
  }
  /// Where nothing has been added yet in this step, zeros come without a transfer.
  std::vector<SwapPiece> gradient_pieces(int b, std::int64_t at, bool in) {
    std::vector<SwapPiece> all;
    for (const Segment* s : detail::segments_of(*model_, *store_, b)) {
      if (s->frozen) continue;
      SwapPiece piece{arena_.at(at), s->offset * std::int64_t{sizeof(A)},
                      s->size * std::int64_t{sizeof(A)}, store_->grads_file()};
      const auto id = static_cast<std::size_t>(s - store_->segments().data());
      if (in && fresh_[id]) {
        piece.far = SwapPiece::zeros;
        fresh_[id] = false;
      }
      all.push_back(piece);
      at += detail::gradient_bytes<T>(*s);
    }
    return all;
  }
  /// Where block b's layers find their parameters now.
  [[nodiscard]] std::vector<nn::ParamView<T>> views(int b) const {
    const auto& place = blocks_[static_cast<std::size_t>(b)];
    const auto segments = detail::segments_of(*model_, *store_, b);
    const auto& block = model_->block_at(b);
    std::vector<nn::ParamView<T>> all;
    for (std::int64_t i = 0; i < block.param_count(); ++i) {
      const Segment& s = store_->segment_of(block.first_param() + i);
      nn::ParamView<T> view{nullptr, nullptr, s.extents, nullptr, nullptr};
      if (s.buffer) {
        const std::int64_t at = s.offset - store_->buffers_begin();
        view.buffer = near_buffers(false).data() + at;
        view.next = near_buffers(true).data() + at;
      }
      std::int64_t weights = place.weights;
      std::int64_t gradients = place.gradients;
      for (const Segment* before : segments) {
        if (before == &s) break;
        weights += detail::weight_bytes<T>(*before);
        gradients += detail::gradient_bytes<T>(*before);
      }
      if (!s.buffer && place.weights >= 0) {
        view.value = reinterpret_cast<const T*>(arena_.at(weights));
      }
      if (!s.frozen && place.gradients >= 0) {
        view.grad = reinterpret_cast<A*>(arena_.at(gradients));
      }
      all.push_back(view);
    }
    return all;
  }

  E exec_;
  const nn::Model<D, T>* model_;
  const Store* store_;
  plan::WindowSizes sizes_;
  std::int64_t bytes_ = 0;  ///< for weights and gradients; buffers lie behind
  Arena<M> arena_;
  plan::Slots slots_;
  std::vector<Place> blocks_;
  std::vector<bool> fresh_;  ///< of each segment: nothing was added to its gradient in this step
  std::unique_ptr<SwapLink<D>> link_;
};

}  // namespace krama
