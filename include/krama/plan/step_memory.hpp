// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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
};

/// Where everything of one step lies in the arena.
struct StepMemory {
  std::vector<std::int64_t> value;           ///< offset of each value
  std::vector<std::int64_t> gradient;        ///< offset of each value's gradient
  std::vector<std::int64_t> forward_stash;   ///< of each block, when its forward runs
  std::vector<std::int64_t> backward_stash;  ///< and when its backward runs; other if recomputed
  std::int64_t scratch = 0;
  /// Where gradients wait to be added to other readers', those of one block one behind the other,
  /// each rounded up to a cache line.
  std::int64_t fan_out = 0;
  static std::int64_t round_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  std::int64_t peak = 0;
  std::int64_t largest_live = 0;
};

/// Lifetimes from the program, then offsets. Micro-batches run one after the other over the same
/// blocks, so the first one's lifetimes stand for all; an evaluation fits into any training step's
/// memory. With no micro-batch in the program nothing is needed.
inline StepMemory plan_step_memory(const Program& program, const StepSizes& sizes) {
  const auto blocks = sizes.blocks.size();
  const auto values = sizes.values.size();
  enum Kind { value, gradient, forward_stash, backward_stash };
  // One piece of each kind per value and block, in that order.
  std::vector<Lifetime> pieces(2 * values + 2 * blocks + 2);
  const auto piece = [&](Kind kind, int i) -> Lifetime& {
    const auto k = static_cast<std::size_t>(i);
    switch (kind) {
      case value:
        return pieces[k];
      case gradient:
        return pieces[values + k];
      case forward_stash:
        return pieces[2 * values + k];
      default:
        return pieces[2 * values + blocks + k];
    }
  };
  Lifetime& scratch = pieces[2 * values + 2 * blocks];
  Lifetime& fan_out = pieces[2 * values + 2 * blocks + 1];
  const auto touch = [](Lifetime& p, std::int64_t bytes, int at) {
    if (p.last < p.first) p.first = at;
    p.bytes = bytes;
    p.last = at;
  };
  const auto touch_value = [&](int v, int at) {
    touch(piece(value, v), sizes.values[static_cast<std::size_t>(v)].bytes, at);
  };
  const auto touch_gradient = [&](int v, int at) {
    const auto& info = sizes.values[static_cast<std::size_t>(v)];
    if (info.has_gradient) touch(piece(gradient, v), info.bytes, at);
  };

  std::vector<bool> recomputed(blocks, false);
  for (const auto& i : program) {
    if (i.op == Op::recompute) recomputed[static_cast<std::size_t>(i.index)] = true;
  }
  const int end = static_cast<int>(program.size());
  for (int at = 0; at < end; ++at) {
    const Instr& i = program[static_cast<std::size_t>(at)];
    if (i.micro != 0) continue;
    if (i.op == Op::feed) touch_value(sizes.input, at);
    if (i.op == Op::loss) {
      touch_value(sizes.output, at);
      touch_gradient(sizes.output, at);
    }
    if (i.op != Op::forward && i.op != Op::recompute && i.op != Op::backward) continue;
    const auto& b = sizes.blocks[static_cast<std::size_t>(i.index)];
    touch(scratch, std::max(scratch.bytes, b.scratch), at);
    const bool backward = i.op == Op::backward;
    for (const int v : b.reads) {
      if (!backward || b.reads_input) touch_value(v, at);
      if (backward) touch_gradient(v, at);
    }
    if (!backward || b.reads_output) touch_value(b.writes, at);
    if (backward) touch_gradient(b.writes, at);
    const bool first_stash = i.op == Op::forward && recomputed[static_cast<std::size_t>(i.index)];
    touch(piece(first_stash ? forward_stash : backward_stash, i.index), b.stash, at);
  }
  // Scratch and fan-out memory are used again and again: alive throughout.
  scratch.first = fan_out.first = 0;
  scratch.last = fan_out.last = end;
  // A second reader's gradient is made beside the first one's and added.
  std::vector<int> readers(values, 0);
  for (const auto& b : sizes.blocks) {
    for (const int v : b.reads) ++readers[static_cast<std::size_t>(v)];
  }
  for (const auto& b : sizes.blocks) {
    std::int64_t bytes = 0;
    for (const int v : b.reads) {
      const auto& info = sizes.values[static_cast<std::size_t>(v)];
      if (info.has_gradient && readers[static_cast<std::size_t>(v)] > 1) {
        bytes += StepMemory::round_up(info.bytes);
      }
    }
    fan_out.bytes = std::max(fan_out.bytes, bytes);
  }

  const Placement placed = place(pieces);
  StepMemory m;
  const auto offset = [&](std::size_t i) { return placed.offsets[i]; };
  for (std::size_t v = 0; v < values; ++v) {
    m.value.push_back(offset(v));
    m.gradient.push_back(offset(values + v));
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    m.backward_stash.push_back(offset(2 * values + blocks + b));
    m.forward_stash.push_back(recomputed[b] ? offset(2 * values + b) : m.backward_stash.back());
  }
  m.scratch = offset(2 * values + 2 * blocks);
  m.fan_out = offset(2 * values + 2 * blocks + 1);
  m.peak = placed.peak;
  m.largest_live = largest_live(pieces);
  return m;
}

}  // namespace krama::plan
