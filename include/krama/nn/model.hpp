// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/memory/param_store.hpp>
#include <krama/nn/block.hpp>
#include <krama/nn/chain.hpp>
#include <krama/nn/join.hpp>

namespace krama::nn {

/// Number of a value of a model.
struct ValueId {
  int index = -1;
};

/// A value: what blocks read and write. Extents are those of one sample; the batch comes first.
struct ValueInfo {
  std::string name;
  Shape sample;
  DType dtype = DType::f32;
  int producer = -1;            ///< block that writes it; -1: an input of the model
  std::vector<int> readers;     ///< blocks that read it, in order
  bool differentiable = false;  ///< some parameter lies before it, so its gradient is wanted
};

/// An ordered list of blocks over numbered values. Chains, residuals over several blocks, long skips
/// and shared inputs are all this. Blocks run in the order in which they were added, backward in the
/// reverse order. One value is the output.
template <Device D, Scalar T>
class Model {
 public:
  using Value = AnyRef<mem_of<D>>;
  using Store = ParamStore<T, mem_of<D>>;

  /// An input of the model: element type and extents of one sample.
  template <class U = T>
  ValueId input(std::string name, const Shape& sample) {
    KRAMA_EXPECTS(inputs_.empty(), "a model has one input so far; \"{}\" would be the second",
                  name);
    values_.push_back({std::move(name), sample, dtype_of<U>, -1, {}, false});
    inputs_.push_back(last_value());
    return last_value();
  }

  /// Adds a block made of a layer or a chain, reading `x`.
  template <class N>
  ValueId block(const std::string& name, N n, ValueId x) {
    return insert(name, std::make_unique<NodeBlock<D, T, N>>(std::move(n)), {x});
  }

  /// Adds the sum of values; `fit` says what becomes of unlike heights and widths.
  ValueId add(const std::string& name, std::vector<ValueId> x, Fit fit = Fit::exact) {
    return insert(name, std::make_unique<AddBlock<D, T>>(fit), std::move(x));
  }
  /// Adds the values' channels (last extents), one behind the other: a U-Net's long skips.
  ValueId concat(const std::string& name, std::vector<ValueId> x, Fit fit = Fit::exact) {
    return insert(name, std::make_unique<ConcatBlock<D, T>>(fit), std::move(x));
  }

  /// Names the value that the loss reads. Without it, the last one.
  void output(ValueId y) {
    check(y);
    output_ = y;
  }

  [[nodiscard]] int block_count() const { return static_cast<int>(blocks_.size()); }
  [[nodiscard]] const Block<D, T>& block_at(int b) const { return *entry(b).block; }
  [[nodiscard]] const std::string& block_name(int b) const { return entry(b).name; }
  [[nodiscard]] std::span<const ValueId> reads(int b) const { return entry(b).reads; }
  [[nodiscard]] ValueId writes(int b) const { return entry(b).writes; }
  [[nodiscard]] const std::vector<ValueInfo>& values() const { return values_; }
  [[nodiscard]] const ValueInfo& value(ValueId v) const {
    check(v);
    return values_[static_cast<std::size_t>(v.index)];
  }
  [[nodiscard]] ValueId input_value() const {
    KRAMA_EXPECTS(!inputs_.empty(), "the model has no input; call input() first");
    return inputs_.front();
  }
  [[nodiscard]] ValueId output_value() const { return output_; }

  /// Shape of a value for `samples` samples.
  [[nodiscard]] Shape shape(ValueId v, std::int64_t samples) const {
    return batched(value(v).sample, samples);
  }
  /// What a planner must know of block b for `samples` samples.
  [[nodiscard]] BlockNeeds needs(int b, std::int64_t samples) const {
    return block_at(b).needs(input_shapes(b, samples));
  }
  /// Floating-point operations of one forward of block b; a product and its addition are two.
  [[nodiscard]] std::int64_t flops(int b, std::int64_t samples) const {
    return block_at(b).flops(input_shapes(b, samples));
  }

  /// Some layer speaks to the other ranks during forward and backward, so that all ranks must run
  /// the same blocks in the same order.
  [[nodiscard]] bool meets_ranks() const {
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [](const Entry& e) { return e.block->meets_ranks(); });
  }

  [[nodiscard]] const std::vector<ParamInfo>& params() const { return spec_.infos(); }

  /// All parameters, allocated and with their first values; in far memory where `far` says so.
  /// \throws OutOfMemory, TierError
  template <ExecutionSpace E>
  [[nodiscard]] Store make_store(const E& exec, std::uint64_t seed,
                                 const std::optional<TierOptions>& far = {}) const {
    Store store(exec, params(), far);
    store.initialise(exec, seed);
    return store;
  }

  /// Where block b's parameters and buffers live in `store`.
  /// Gradients and next values are null where `with_grads` is false.
  [[nodiscard]] std::vector<ParamView<T>> views(int b, const Store& store, bool with_grads) const {
    std::vector<ParamView<T>> out;
    const auto& block = block_at(b);
    for (std::int64_t i = 0; i < block.param_count(); ++i) {
      const Segment& s = store.segment_of(block.first_param() + i);
      out.push_back(view_of(store, s));
      if (!with_grads) out.back().grad = out.back().next = nullptr;
    }
    return out;
  }

  static ParamView<T> view_of(const Store& store, const Segment& s) {
    auto* grad = store.grads().data() + s.offset;
    if (s.buffer) {
      return {store.working() + s.offset, nullptr, s.extents, store.values().data() + s.offset,
              grad};
    }
    return {store.working() + s.offset, s.frozen ? nullptr : grad, s.extents, nullptr, nullptr};
  }

  static Shape batched(const Shape& sample, std::int64_t samples) {
    std::vector<std::int64_t> e{samples};
    e.insert(e.end(), sample.span().begin(), sample.span().end());
    return Shape(e);
  }

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Block<D, T>> block;
    std::vector<ValueId> reads;
    ValueId writes;
  };

  ValueId insert(const std::string& name, std::unique_ptr<Block<D, T>> block,
                 std::vector<ValueId> reads) {
    // One sample is enough to infer shapes: the batch is the first extent everywhere.
    std::vector<Shape> in;
    bool differentiable = false;
    for (const auto v : reads) {
      in.push_back(batched(value(v).sample, 1));
      differentiable = differentiable || value(v).differentiable;
      values_[static_cast<std::size_t>(v.index)].readers.push_back(block_count());
    }
    const std::string full = name.empty() ? std::to_string(block_count()) : name;
    Shape out;
    try {
      out = block->out(in);
    } catch (const Error& e) {
      throw Error("block \"" + full + "\": " + e.what(), e.where());
    }
    KRAMA_EXPECTS(out.rank() >= 1 && out[0] == 1,
                  "block \"{}\" turns one sample into {}: the batch must stay the first extent",
                  full, to_string(out));
    const std::int64_t before = spec_.count();
    spec_.within(full, [&] { block->bind(spec_); });
    for (auto i = static_cast<std::size_t>(before); i < spec_.infos().size(); ++i) {
      differentiable = differentiable || !spec_.infos()[i].options.frozen;
    }
    values_.push_back(
        {full, Shape(out.span().subspan(1)), dtype_of<T>, block_count(), {}, differentiable});
    blocks_.push_back({full, std::move(block), std::move(reads), last_value()});
    output_ = last_value();
    return last_value();
  }

  [[nodiscard]] std::vector<Shape> input_shapes(int b, std::int64_t samples) const {
    std::vector<Shape> in;
    for (const auto v : reads(b)) in.push_back(shape(v, samples));
    return in;
  }
  [[nodiscard]] ValueId last_value() const { return {static_cast<int>(values_.size()) - 1}; }
  void check(ValueId v) const {
    KRAMA_EXPECTS(v.index >= 0 && v.index < static_cast<int>(values_.size()),
                  "value {} does not exist; the model has {}", v.index, values_.size());
  }
  [[nodiscard]] const Entry& entry(int b) const {
    KRAMA_EXPECTS(b >= 0 && b < block_count(), "block {} does not exist; the model has {}", b,
                  block_count());
    return blocks_[static_cast<std::size_t>(b)];
  }

  ParamSpec spec_;
  std::vector<Entry> blocks_;
  std::vector<ValueInfo> values_;
  std::vector<ValueId> inputs_;
  ValueId output_;
};

}  // namespace krama::nn
