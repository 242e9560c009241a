// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <krama/memory/param_store.hpp>
#include <krama/nn/block.hpp>
#include <krama/nn/chain.hpp>
#include <krama/nn/model.hpp>

namespace krama::testing {

/// One layer (or chain) with everything around it that a model would provide: parameters, stash and
/// scratch of exactly the declared sizes. Memory is filled with a poison value before use, so that a
/// layer which reads what it did not write gives NaN.
template <Device D, class T, class N>
class LayerHarness {
 public:
  using M = mem_of<D>;
  using A = accum_t<T>;
  using X = AnyRef<M>;

  LayerHarness(const exec_of<D>& exec, N layer, const Shape& in, bool integer_input,
               std::uint64_t seed)
      : exec_(exec), block_(std::move(layer)), in_(in), integer_input_(integer_input) {
    block_.bind(spec_);
    store_ = ParamStore<T, M>(exec, spec_.infos());
    store_.initialise(exec, seed);
    const Shape shapes[] = {in};
    needs_ = block_.needs(shapes);
    out_ = block_.out(shapes);
    stash_ = Tensor<std::byte, 1, M>(exec, "krama::testing::stash", {needs_.stash + 64});
    scratch_ = Tensor<std::byte, 1, M>(exec, "krama::testing::scratch", {needs_.scratch + 64});
    for (std::int64_t i = 0; i < store_.declared(); ++i) {
      views_.push_back(nn::Model<D, T>::view_of(store_, store_.segment_of(i)));
    }
    batch_.samples = in.rank() > 0 ? in[0] : 1;
    batch_.seed = seed;
  }

  [[nodiscard]] const Shape& in() const { return in_; }
  [[nodiscard]] const Shape& out() const { return out_; }
  [[nodiscard]] ParamStore<T, M>& store() { return store_; }
  [[nodiscard]] nn::BatchInfo& batch() { return batch_; }
  [[nodiscard]] const nn::BlockNeeds& needs() const { return needs_; }
  [[nodiscard]] const exec_of<D>& exec() const { return exec_; }

  void forward(const X& x, const X& y, bool training = true) {
    const X xs[] = {x};
    block_.forward(context(training), xs, y);
  }
  void backward(const X& x, const X& y, const X& dy, const X& dx, bool training = true) {
    const X xs[] = {needs_.reads_input ? x : without_memory(x)};
    const X dxs[] = {dx};
    block_.backward(context(training), xs, needs_.reads_output ? y : without_memory(y), dy, dxs);
  }
  /// What forward is told besides `training`: other ranks, and whether buffers' next values are
  /// wanted (in the place of their gradients).
  [[nodiscard]] nn::CallInfo& call() { return call_; }
  /// Fills stash and scratch with NaN bytes.
  void poison_stash() { poison(stash_); }
  void poison_scratch() { poison(scratch_); }

 private:
  nn::Context<D, T> context(bool training) {
    call_.training = training;
    return {exec_, call_, batch_, views_, block_.bindings(), stash_.data(), scratch_.data()};
  }
  static X without_memory(X x) {
    x.data = nullptr;
    return x;
  }
  void poison(const Tensor<std::byte, 1, M>& t) { fill(exec_, t.ref(), std::byte{0xff}); }

  exec_of<D> exec_;
  nn::NodeBlock<D, T, N> block_;
  ParamSpec spec_;
  Shape in_;
  Shape out_;
  bool integer_input_;
  nn::BlockNeeds needs_;
  ParamStore<T, M> store_;
  Tensor<std::byte, 1, M> stash_;
  Tensor<std::byte, 1, M> scratch_;
  std::vector<nn::ParamView<T>> views_;
  nn::BatchInfo batch_;
  nn::CallInfo call_;
};

}  // namespace krama::testing
