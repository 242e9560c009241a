// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <krama/core/collective.hpp>
#include <krama/core/concepts.hpp>
#include <krama/core/random.hpp>
#include <krama/tensor/tensor_ref.hpp>

namespace krama::nn {

/// Which logical samples a call works on: the key of every random number, so that dropout masks do
/// not depend on how the global batch was split.
struct BatchInfo {
  std::int64_t first_sample = 0;  ///< position of the first sample within the global batch
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};

/// Where a parameter lives during a call.
template <class T>
struct ParamView {
  const T* value = nullptr;
  accum_t<T>* grad = nullptr;  ///< null: frozen, or a call that makes no gradients
  Shape extents;
  const accum_t<T>* buffer = nullptr;  ///< a buffer's value; null for parameters
  accum_t<T>* next = nullptr;          ///< what the step will commit as a buffer's value
};

/// Memory regions of one layer call, in bytes and aligned to `alignment`.
class RegionSpec {
 public:
  static constexpr std::int64_t alignment = 64;
  static constexpr int max_slots = 8;

  /// Adds a region of `count` elements; its id is the order of the calls.
  template <class U>
  void add(std::int64_t count) {
    KRAMA_EXPECTS(slots_ < max_slots, "a layer has at most {} stash slots", max_slots);
    offsets_[static_cast<std::size_t>(slots_++)] = bytes_;
    bytes_ += round_up(checked_product(count, static_cast<std::int64_t>(sizeof(U))));
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t offset(int id) const {
    KRAMA_EXPECTS(id >= 0 && id < slots_, "slot {} was not declared; the layer declares {}", id,
                  slots_);
    return offsets_[static_cast<std::size_t>(id)];
  }
  static std::int64_t round_up(std::int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

 private:
  int slots_ = 0;
  std::int64_t bytes_ = 0;
  std::array<std::int64_t, max_slots> offsets_{};
};

/// What a layer declares in `stash`: tensors that forward leaves for backward.
using StashSpec = RegionSpec;
/// What a layer declares in `scratch`: memory valid during one call only.
using ScratchSpec = RegionSpec;

/// Where one leaf layer of a block finds its own things; made once when the block is bound.
struct LayerBinding {
  int first_param = 0;
  std::uint32_t stream = 0;  ///< of random numbers
  std::string name = {};     ///< the prefix of its parameters
};

/// What kind of call it is.
struct CallInfo {
  bool training = true;
  bool commits = false;         ///< forward may propose next values of buffers
  Collective* group = nullptr;  ///< the ranks that share the batch; null: one rank
};

/// Everything that a layer may use besides its tensors. Cheap to copy. All kernels of a layer go to
/// `exec()`.
template <Device D, class T>
class Context {
 public:
  using device = D;
  using execution_space = exec_of<D>;
  using memory_space = mem_of<D>;
  using scalar = T;

  Context(const execution_space& exec, const CallInfo& call, const BatchInfo& batch,
          std::span<const ParamView<T>> params, std::span<const LayerBinding> bindings,
          std::byte* stash, std::byte* scratch)
      : exec_(&exec),
        batch_(&batch),
        params_(params),
        bindings_(bindings),
        stash_(stash),
        scratch_(scratch),
        call_(call) {}

  [[nodiscard]] const execution_space& exec() const { return *exec_; }
  [[nodiscard]] bool is_training() const { return call_.training; }
  [[nodiscard]] const BatchInfo& batch() const { return *batch_; }
  /// The ranks that share the batch; null on one rank. Only for layers with `meets_ranks`.
  [[nodiscard]] Collective* group() const { return call_.group; }
  /// Full name of the layer: for what other ranks and users read.
  [[nodiscard]] const std::string& name() const { return bindings_.front().name; }

  /// The numbers of this layer in this step; index them by logical element (see `element_index`).
  [[nodiscard]] RandomKey random_key() const {
    return {batch_->seed, bindings_.front().stream, batch_->step};
  }

  /// Parameter `id` of the layer, in the order of its `params`.
  template <int R>
  [[nodiscard]] TensorRef<const T, R, memory_space> param(int id) const {
    const auto& p = view_of(id);
    return {p.value, p.extents.template collapsed<R>()};
  }
  /// Its gradient, to be added to; null when it is frozen.
  template <int R>
  [[nodiscard]] TensorRef<accum_t<T>, R, memory_space> grad(int id) const {
    const auto& p = view_of(id);
    return {p.grad, p.extents.template collapsed<R>()};
  }
  /// Value of buffer `id` (counted with the parameters), as it was when the step began.
  template <int R>
  [[nodiscard]] TensorRef<const accum_t<T>, R, memory_space> buffer(int id) const {
    const auto& p = view_of(id);
    KRAMA_EXPECTS(p.buffer != nullptr, "{}: parameter {} is not a buffer", name(), id);
    return {p.buffer, p.extents.template collapsed<R>()};
  }
  /// Where forward writes the buffer's next value, all of it; null where nothing is committed
  /// (evaluation, recomputation). Of several micro-batches the last one's value is committed.
  template <int R>
  [[nodiscard]] TensorRef<accum_t<T>, R, memory_space> next(int id) const {
    const auto& p = view_of(id);
    return {call_.commits ? p.next : nullptr, p.extents.template collapsed<R>()};
  }
  /// Stash slot `id`, in the order of the layer's `stash`.
  template <class U, int R>
  [[nodiscard]] TensorRef<U, R, memory_space> slot(int id, const Extents<R>& extents) const {
    return {reinterpret_cast<U*>(stash_ + stash_spec_.offset(id)), extents};
  }
  /// Scratch region `id`, in the order of the layer's `scratch`.
  template <class U>
  [[nodiscard]] U* scratch(int id) const {
    return reinterpret_cast<U*>(scratch_ + scratch_spec_.offset(id));
  }

  /// For containers: the same call seen by a part of them that starts at leaf `leaf`.
  [[nodiscard]] Context part(int leaf, std::int64_t stash_offset,
                             std::int64_t scratch_offset) const {
    Context c = *this;
    c.bindings_ = bindings_.subspan(static_cast<std::size_t>(leaf));
    c.stash_ = stash_ + stash_offset;
    c.scratch_ = scratch_ + scratch_offset;
    return c;
  }
  /// For containers: with the regions that a leaf layer declared.
  [[nodiscard]] Context with_regions(const StashSpec& stash, const ScratchSpec& scratch) const {
    Context c = *this;
    c.stash_spec_ = stash;
    c.scratch_spec_ = scratch;
    return c;
  }
  [[nodiscard]] std::byte* stash_base() const { return stash_; }
  [[nodiscard]] std::byte* scratch_base() const { return scratch_; }

 private:
  [[nodiscard]] const ParamView<T>& view_of(int id) const {
    const auto i = static_cast<std::size_t>(bindings_.front().first_param + id);
    KRAMA_EXPECTS(id >= 0 && i < params_.size(), "parameter {} was not declared", id);
    return params_[i];
  }

  const execution_space* exec_;
  const BatchInfo* batch_;
  std::span<const ParamView<T>> params_;
  std::span<const LayerBinding> bindings_;
  StashSpec stash_spec_;
  ScratchSpec scratch_spec_;
  std::byte* stash_;
  std::byte* scratch_;
  CallInfo call_;
};

}  // namespace krama::nn
