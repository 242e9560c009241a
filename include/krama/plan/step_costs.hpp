// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <krama/definitions.hpp>

namespace krama::plan {

/// What becomes of the values that a block saves for its backward.
enum class Residency : std::uint8_t {
  keep,        ///< stays in near memory
  swap,        ///< goes to the far tier after forward and comes back before backward
  recompute,   ///< dropped; forward runs again from the block's input, which stays
  swap_input,  ///< as recompute, but the input goes to the far tier and comes back
  chain,       ///< dropped with its input; made again together with the block before it
};

constexpr std::string_view name_of(Residency r) {
  switch (r) {
    case Residency::keep:
      return "keep";
    case Residency::swap:
      return "swap";
    case Residency::recompute:
      return "recompute";
    case Residency::swap_input:
      return "swap input, recompute";
    case Residency::chain:
      return "recompute with the one before";
  }
  return "?";
}

/// Whether forward runs twice.
constexpr bool is_recomputed(Residency r) { return r >= Residency::recompute; }
/// Whether a transfer is needed.
constexpr bool is_swapped(Residency r) {
  return r == Residency::swap || r == Residency::swap_input;
}

/// One block for one micro-batch, as measured.
struct BlockCost {
  double forward = 0;       ///< seconds
  double backward = 0;      ///< seconds, without recomputation
  std::int64_t saved = 0;   ///< bytes from forward to backward, the input's included
  std::int64_t input = 0;   ///< of those, what recomputation starts from
  std::int64_t weight = 0;  ///< bytes of parameters
};

/// The link between near memory and the far tier: seconds = latency + bytes / bandwidth.
struct LinkCost {
  double latency = 0;
  double out_bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per second
  double in_bandwidth = std::numeric_limits<double>::infinity();

  [[nodiscard]] double out(std::int64_t bytes) const {
    return latency + static_cast<double>(bytes) / out_bandwidth;
  }
  [[nodiscard]] double in(std::int64_t bytes) const {
    return latency + static_cast<double>(bytes) / in_bandwidth;
  }
};

/// Everything a memory planner knows: a row of blocks, each of which reads its predecessor's output.
struct StepCosts {
  std::vector<BlockCost> blocks;
  LinkCost link;
  std::int64_t budget = 0;  ///< near memory for saved values, in bytes

  [[nodiscard]] int count() const { return static_cast<int>(blocks.size()); }
  /// Forward and backward of all blocks, nothing else: what a step takes that keeps all.
  [[nodiscard]] double in_core_seconds() const;
  [[nodiscard]] std::int64_t saved_bytes() const;
};

using Residencies = std::vector<Residency>;

/// What a plan costs, by the simulator.
struct Prediction {
  bool fits = false;
  int misfit = -1;          ///< block that does not fit
  std::int64_t needed = 0;  ///< bytes that it would need; the peak where all fit
  double seconds = 0;
  double compute = 0;  ///< of those, forward, backward and recomputation
  double recompute = 0;
  [[nodiscard]] double stall() const { return seconds - compute; }
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE double StepCosts::in_core_seconds() const {
  double s = 0;
  for (const auto& b : blocks) s += b.forward + b.backward;
  return s;
}

KRAMA_INLINE std::int64_t StepCosts::saved_bytes() const {
  std::int64_t n = 0;
  for (const auto& b : blocks) n += b.saved;
  return n;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
