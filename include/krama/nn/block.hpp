// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/nn/node.hpp>

namespace krama::nn {

/// What a planner must know of a block for inputs of given shapes.
struct BlockNeeds {
  std::int64_t stash = 0;     ///< bytes from forward to backward
  std::int64_t scratch = 0;   ///< bytes during one call
  bool reads_input = false;   ///< in backward
  bool reads_output = false;  ///< in backward
};

/// The unit that is kept, recomputed, swapped, staged or sharded: a run of layers behind one virtual
/// call, so that the depth of a network is never part of a type.
template <Device D, class T>
class Block {
 public:
  using Value = AnyRef<mem_of<D>>;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  virtual ~Block() = default;

  [[nodiscard]] virtual Shape out(std::span<const Shape> in) const = 0;
  [[nodiscard]] virtual BlockNeeds needs(std::span<const Shape> in) const = 0;
  /// Floating-point operations of one forward; a product and its addition are two.
  [[nodiscard]] virtual std::int64_t flops(std::span<const Shape> in) const = 0;

  /// Declares parameters and remembers where its layers find them.
  virtual void bind(ParamSpec& spec) = 0;

  /// y = f(x…). Asynchronous on ctx.exec().
  virtual void forward(const Context<D, T>& ctx, std::span<const Value> x,
                       const Value& y) const = 0;
  /// dx… from dy; parameter gradients are added to. A null dx is not wanted.
  virtual void backward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y,
                        const Value& dy, std::span<const Value> dx) const = 0;

  [[nodiscard]] std::span<const LayerBinding> bindings() const { return bindings_; }
  [[nodiscard]] std::int64_t first_param() const { return first_param_; }
  [[nodiscard]] std::int64_t param_count() const { return param_count_; }
  /// Some layer of it speaks to the other ranks.
  [[nodiscard]] bool meets_ranks() const { return meets_ranks_; }

 protected:
  std::vector<LayerBinding> bindings_;
  std::int64_t first_param_ = 0;
  std::int64_t param_count_ = 0;
  bool meets_ranks_ = false;
};

/// A chain (or a single layer) with one input as a block.
template <Device D, class T, class N>
class NodeBlock final : public Block<D, T> {
 public:
  using typename Block<D, T>::Value;

  explicit NodeBlock(N n) : node_(std::move(n)) {}

  [[nodiscard]] Shape out(std::span<const Shape> in) const override {
    KRAMA_EXPECTS(in.size() == 1, "this block reads one value, not {}", in.size());
    return node::out(node_, in[0]);
  }
  [[nodiscard]] BlockNeeds needs(std::span<const Shape> in) const override {
    const NodeSizes s = node::sizes<D, T>(node_, in[0]);
    return {s.stash, s.scratch, node::needs_input<N>(), node::needs_output<N>()};
  }
  [[nodiscard]] std::int64_t flops(std::span<const Shape> in) const override {
    return node::flops(node_, in[0]);
  }
  void bind(ParamSpec& spec) override {
    this->first_param_ = spec.count();
    const auto first = static_cast<int>(spec.count());
    auto visit = [&](int param, const std::string& prefix, bool meets) {
      // The name, not the position, keys a layer's random numbers: adding a layer elsewhere does not
      // change them.
      this->bindings_.push_back(
          {param - first, static_cast<std::uint32_t>(hash_of_name(prefix)), prefix});
      this->meets_ranks_ = this->meets_ranks_ || meets;
    };
    node::params(node_, spec, visit);
    this->param_count_ = spec.count() - this->first_param_;
  }
  void forward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y) const override {
    node::forward<D, T>(node_, ctx, x[0], y);
  }
  void backward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y, const Value& dy,
                std::span<const Value> dx) const override {
    node::backward<D, T>(node_, ctx, x[0], y, dy, dx[0]);
  }

 private:
  static std::uint64_t hash_of_name(std::string_view text) {
    std::uint64_t h = 0xcbf29ce484222325U;
    for (const char c : text) h = (h ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
    return h ^ (h >> 32);
  }

  N node_;
};

}  // namespace krama::nn
