// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/lifetimes.hpp>
#include <krama/plan/program.hpp>

namespace krama::plan {

/// Sizes of what a step computes, for the largest micro-batch; everything in bytes.
struct StepSizes {
  struct Value {
    std::int64_t bytes = 0;
    bool has_gradient = false;
  };
  struct Block {
    std::int64_t stash = 0;
    std::int64_t scratch = 0;
    bool reads_input = false;   ///< in backward
    bool reads_output = false;  ///< in backward
    std::vector<int> reads;     ///< values
    int writes = -1;
  };
  std::vector<Value> values;
  std::vector<Block> blocks;
  int input = -1;   ///< value that `feed` writes
  int output = -1;  ///< value that the loss reads

  /// The values that leave and come back with block b: what it alone reads, and reads in backward.
  [[nodiscard]] std::vector<int> travels_with(int b) const;
};

/// One run of bytes that a swap moves: from its place in forward to its place in backward.
struct Move {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t bytes = 0;
};

/// Where everything of one step lies in the arena. What is swapped or made again has two places.
struct StepMemory {
  std::vector<std::int64_t> value;           ///< offset of each value from its forward on
  std::vector<std::int64_t> value_again;     ///< and after it came back or was made again
  std::vector<std::int64_t> gradient;        ///< offset of each value's gradient
  std::vector<std::int64_t> forward_stash;   ///< of each block, when its forward runs
  std::vector<std::int64_t> backward_stash;  ///< and when its backward runs
  std::vector<std::vector<Move>> moves;      ///< of each block that is swapped
  std::vector<std::vector<int>> travellers;  ///< the values among them
  std::int64_t scratch = 0;
  /// Where gradients wait to be added to other readers', those of one block one behind the other,
  /// each rounded up to a cache line.
  std::int64_t fan_out = 0;
  static std::int64_t round_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  std::int64_t peak = 0;
  std::int64_t largest_live = 0;
};

namespace detail {

/// The lifetimes of everything in one step, found by walking its program once.
class LifetimeWalk {
 public:
  LifetimeWalk(const Program& program, const StepSizes& sizes);

  [[nodiscard]] StepMemory placed() const;

 private:
  static void touch(Lifetime& p, std::int64_t bytes, int at);
  // One piece for each value in forward, in backward, its gradient, each stash likewise.
  Lifetime& value(int v);
  Lifetime& stash(std::size_t b) {
    return pieces_[3 * values_ + (stash_again_[b] ? blocks_ + b : b)];
  }
  Lifetime& scratch() { return pieces_[pieces_.size() - 2]; }
  Lifetime& fan_out() { return pieces_[pieces_.size() - 1]; }

  void touch_value(int v, int at) {
    touch(value(v), sizes_->values[static_cast<std::size_t>(v)].bytes, at);
  }
  void touch_gradient(int v, int at);

  void visit(const Instr& i, int at);

  void compute(const Instr& i, int at);

  void transfer(const Instr& i, int at);

  const StepSizes* sizes_;
  std::size_t values_, blocks_;
  std::vector<Lifetime> pieces_;
  std::vector<bool> value_again_, stash_again_;
  std::vector<int> readers_;  ///< of each value
  std::vector<bool> remade_;  ///< blocks that are recomputed
  std::vector<bool> moves_;   ///< blocks that are swapped, or their inputs
};

}  // namespace detail

/// Lifetimes from the program, then offsets. Micro-batches run one after the other over the same
/// blocks, so the first one's lifetimes stand for all; an evaluation fits into any training step's
/// memory. With no micro-batch in the program nothing is needed.
inline StepMemory plan_step_memory(const Program& program, const StepSizes& sizes) {
  return detail::LifetimeWalk(program, sizes).placed();
}

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE std::vector<int> StepSizes::travels_with(int b) const {
  std::vector<int> with;
  const auto& block = blocks[static_cast<std::size_t>(b)];
  if (!block.reads_input) return with;
  for (const int v : block.reads) {
    int readers = v == output ? 1 : 0;
    for (const auto& other : blocks) {
      readers += static_cast<int>(std::count(other.reads.begin(), other.reads.end(), v));
    }
    if (readers == 1) with.push_back(v);
  }
  return with;
}

}  // namespace krama::plan

namespace krama::plan::detail {

KRAMA_INLINE LifetimeWalk::LifetimeWalk(const Program& program, const StepSizes& sizes)
    : sizes_(&sizes),
      values_(sizes.values.size()),
      blocks_(sizes.blocks.size()),
      pieces_(3 * values_ + 2 * blocks_ + 2),
      value_again_(values_, false),
      stash_again_(blocks_, false),
      readers_(values_, 0),
      remade_(blocks_, false),
      moves_(blocks_, false) {
  for (const auto& b : sizes.blocks) {
    for (const int v : b.reads) ++readers_[static_cast<std::size_t>(v)];
  }
  for (const auto& i : program) {
    if (i.op == Op::recompute) remade_[static_cast<std::size_t>(i.index)] = true;
  }
  const int end = static_cast<int>(program.size());
  for (int at = 0; at < end; ++at) {
    const Instr& i = program[static_cast<std::size_t>(at)];
    if (i.micro == 0) visit(i, at);
  }
  // Scratch and fan-out memory are used again and again: alive throughout.
  for (auto* p : {&scratch(), &fan_out()}) {
    p->first = 0;
    p->last = end;
  }
}

KRAMA_INLINE StepMemory LifetimeWalk::placed() const {
  const Placement p = place(pieces_);
  StepMemory m;
  const auto offset = [&](std::size_t i) { return p.offsets[i]; };
  for (std::size_t v = 0; v < values_; ++v) {
    m.value.push_back(offset(v));
    m.value_again.push_back(value_again_[v] ? offset(values_ + v) : offset(v));
    m.gradient.push_back(offset(2 * values_ + v));
  }
  for (std::size_t b = 0; b < blocks_; ++b) {
    m.forward_stash.push_back(offset(3 * values_ + b));
    m.backward_stash.push_back(
        offset(stash_again_[b] ? 3 * values_ + blocks_ + b : 3 * values_ + b));
    m.moves.emplace_back();
    m.travellers.emplace_back();
    if (!moves_[b]) continue;
    if (!remade_[b] && sizes_->blocks[b].stash > 0) {
      m.moves[b].push_back({m.forward_stash[b], m.backward_stash[b], sizes_->blocks[b].stash});
    }
    for (const int v : sizes_->travels_with(static_cast<int>(b))) {
      const auto k = static_cast<std::size_t>(v);
      m.moves[b].push_back({m.value[k], m.value_again[k], sizes_->values[k].bytes});
      m.travellers[b].push_back(v);
    }
  }
  m.scratch = offset(pieces_.size() - 2);
  m.fan_out = offset(pieces_.size() - 1);
  m.peak = p.peak;
  m.largest_live = largest_live(pieces_);
  return m;
}

KRAMA_INLINE void LifetimeWalk::touch(Lifetime& p, std::int64_t bytes, int at) {
  if (p.last < p.first) p.first = at;
  p.bytes = std::max(p.bytes, bytes);
  p.last = at;
}

KRAMA_INLINE Lifetime& LifetimeWalk::value(int v) {
  const auto k = static_cast<std::size_t>(v);
  return pieces_[value_again_[k] ? values_ + k : k];
}

KRAMA_INLINE void LifetimeWalk::touch_gradient(int v, int at) {
  const auto& info = sizes_->values[static_cast<std::size_t>(v)];
  if (info.has_gradient) {
    touch(pieces_[2 * values_ + static_cast<std::size_t>(v)], info.bytes, at);
  }
}

KRAMA_INLINE void LifetimeWalk::visit(const Instr& i, int at) {
  switch (i.op) {
    case Op::feed:
      touch_value(sizes_->input, at);
      break;
    case Op::loss:
      touch_value(sizes_->output, at);
      touch_gradient(sizes_->output, at);
      break;
    case Op::forward:
    case Op::recompute:
    case Op::backward:
      compute(i, at);
      break;
    case Op::swap_out:
    case Op::await_out:
    case Op::swap_in:
    case Op::await_in:
      transfer(i, at);
      break;
    default:
      break;
  }
}

KRAMA_INLINE void LifetimeWalk::compute(const Instr& i, int at) {
  const auto k = static_cast<std::size_t>(i.index);
  const auto& b = sizes_->blocks[k];
  const bool backward = i.op == Op::backward;
  if (i.op == Op::recompute) {
    stash_again_[k] = true;
    value_again_[static_cast<std::size_t>(b.writes)] = true;
  }
  touch(scratch(), b.scratch, at);
  for (const int v : b.reads) {
    if (!backward || b.reads_input) touch_value(v, at);
    if (backward) touch_gradient(v, at);
  }
  if (!backward || b.reads_output) touch_value(b.writes, at);
  if (backward) {
    touch_gradient(b.writes, at);
    // A second reader's gradient is made beside the first one's and added.
    std::int64_t bytes = 0;
    for (const int v : b.reads) {
      const auto& info = sizes_->values[static_cast<std::size_t>(v)];
      if (info.has_gradient && readers_[static_cast<std::size_t>(v)] > 1) {
        bytes += StepMemory::round_up(info.bytes);
      }
    }
    touch(fan_out(), bytes, at);
  }
  touch(stash(k), b.stash, at);
}

KRAMA_INLINE void LifetimeWalk::transfer(const Instr& i, int at) {
  const auto k = static_cast<std::size_t>(i.index);
  moves_[k] = true;
  // A swap-in may be asked for before its swap-out has been waited for: each has its own place.
  const bool comes = i.op == Op::swap_in || i.op == Op::await_in;
  const auto one = [&](std::size_t first_place, std::size_t second_place, std::int64_t bytes) {
    Lifetime& p = pieces_[comes ? second_place : first_place];
    touch(p, bytes, at);
    if (i.op == Op::swap_out) p.link_after = at;
    if (i.op == Op::swap_in) p.by_link = true;
  };
  // A stash that is made again does not travel.
  if (!remade_[k]) {
    if (comes) stash_again_[k] = true;
    one(3 * values_ + k, 3 * values_ + blocks_ + k, sizes_->blocks[k].stash);
  }
  for (const int v : sizes_->travels_with(i.index)) {
    const auto w = static_cast<std::size_t>(v);
    if (comes) value_again_[w] = true;
    one(w, values_ + w, sizes_->values[w].bytes);
  }
}

}  // namespace krama::plan::detail

#endif  // KRAMA_DEFINITIONS
