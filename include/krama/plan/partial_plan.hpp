// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/step_costs.hpp>

namespace krama::plan {

/// Bytes that wait for their transfer, oldest first, and when each transfer ends.
class TransferQueue {
 public:
  void push(std::int64_t bytes, double end);
  [[nodiscard]] bool empty() const { return first_ == entries_.size(); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Takes the oldest out; when its transfer ends.
  double pop();
  /// Forgets what has ended: it needs no room any more.
  void forget(double now) {
    while (!empty() && entries_[first_].end <= now) pop();
  }
  void compact();
  struct Entry {
    std::int64_t bytes;
    double end;
  };
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::size_t first() const { return first_; }

 private:
  std::vector<Entry> entries_;
  std::size_t first_ = 0;
  std::int64_t bytes_ = 0;
};

/// What a plan for the first blocks comes to: the state of the dynamic programme. Backward is walked
/// in reversed time, in which it is a forward pass whose swap-outs are the swap-ins, so both walks go
/// over the blocks in one order and are joined at the turn:
///   T = F + max(B, max(F, out) - F + in),
/// F and B the ends of the two walks, `out` and `in` the ends of their transfers. (Longest paths are
/// the same read backwards, so this is what StepSimulator finds.)
struct PartialPlan {
  double forward = 0;
  double backward = 0;
  double out_end = 0;
  double in_end = -std::numeric_limits<double>::infinity();
  std::int64_t kept = 0;
  TransferQueue out, in;
  double bound = 0;  ///< no completion is faster
  int parent = -1;
  int length = 0;  ///< blocks that the last decision covers
  Residency what = Residency::keep;

  [[nodiscard]] double cost() const { return forward + backward; }
  [[nodiscard]] double seconds() const {
    return forward + std::max(backward, std::max(forward, out_end) - forward + in_end);
  }
  [[nodiscard]] double link() const { return out_end + std::max(in_end, 0.0); }

  /// Decides about `blocks` from `first` on: one block, or a run that is recomputed together.
  /// \return false when it does not fit
  bool extend(const StepCosts& costs, int first, int blocks, Residency r);

  /// Whether this plan can do whatever `other` does, no later. It may wait first, as long as the time
  /// by which it is ahead.
  [[nodiscard]] bool dominates(const PartialPlan& other) const;

 private:
  static bool make_room(TransferQueue& queue, std::int64_t room, double& now);
  /// How long `mine` must wait so that at no level of memory it makes room later than `theirs`.
  [[nodiscard]] double wait(const TransferQueue& mine, double my_now, const TransferQueue& theirs,
                            double their_now, std::int64_t their_kept) const;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE void TransferQueue::push(std::int64_t bytes, double end) {
  entries_.push_back({bytes, end});
  bytes_ += bytes;
}

KRAMA_INLINE double TransferQueue::pop() {
  bytes_ -= entries_[first_].bytes;
  return entries_[first_++].end;
}

KRAMA_INLINE void TransferQueue::compact() {
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

KRAMA_INLINE bool PartialPlan::extend(const StepCosts& costs, int first, int blocks, Residency r) {
  what = r;
  length = blocks;
  const auto at = [&](int b) -> const BlockCost& {
    return costs.blocks[static_cast<std::size_t>(b)];
  };
  const std::int64_t moved = r == Residency::swap         ? at(first).saved
                             : r == Residency::swap_input ? at(first).input
                                                          : 0;
  const std::int64_t before = kept;
  std::int64_t run_bytes = 0;
  double run_seconds = 0;
  for (int b = first; b < first + blocks; ++b) {
    if (!make_room(out, costs.budget - kept - at(b).saved, forward)) return false;
    forward += at(b).forward;
    run_bytes += at(b).saved;
    run_seconds += at(b).backward + (is_recomputed(r) ? at(b).forward : 0.0);
    if (b > first) continue;
    if (r == Residency::keep) kept += at(b).saved;
    if (r == Residency::recompute) kept += at(b).input;
    if (is_swapped(r)) {
      out_end = std::max(forward, out_end) + costs.link.out(moved);
      out.push(moved, out_end);
    }
  }
  if (!make_room(in, costs.budget - before - run_bytes, backward)) return false;
  backward += run_seconds;
  if (is_swapped(r)) {
    in_end = std::max(backward, in_end) + costs.link.in(moved);
    in.push(moved, in_end);
  }
  out.forget(forward);
  in.forget(backward);
  return true;
}

KRAMA_INLINE bool PartialPlan::dominates(const PartialPlan& other) const {
  constexpr double rounding = 1e-12;
  const double ahead = other.cost() - cost() + rounding;
  if (ahead < 0 || kept > other.kept) return false;
  double wait_out = std::max(
      0.0, std::max(0.0, out_end - forward) - std::max(0.0, other.out_end - other.forward));
  if (wait_out > ahead) return false;
  double wait_in = in_end == -std::numeric_limits<double>::infinity()
                       ? 0.0
                       : std::max(0.0, (in_end - backward) - (other.in_end - other.backward));
  if (wait_out + wait_in > ahead) return false;
  wait_out = std::max(wait_out, wait(out, forward, other.out, other.forward, other.kept));
  if (wait_out + wait_in > ahead) return false;
  wait_in = std::max(wait_in, wait(in, backward, other.in, other.backward, other.kept));
  return wait_out + wait_in <= ahead;
}

KRAMA_INLINE bool PartialPlan::make_room(TransferQueue& queue, std::int64_t room, double& now) {
  queue.forget(now);
  if (room < 0) return false;
  while (queue.bytes() > room) {
    if (queue.empty()) return false;
    now = std::max(now, queue.pop());
  }
  return true;
}

KRAMA_INLINE double PartialPlan::wait(const TransferQueue& mine, double my_now,
                                      const TransferQueue& theirs, double their_now,
                                      std::int64_t their_kept) const {
  double longest = 0;
  std::size_t i = mine.first();
  std::int64_t my_use = kept + mine.bytes();
  double my_wait = 0;
  std::int64_t their_use = their_kept + theirs.bytes();
  double their_wait = 0;
  for (std::size_t j = theirs.first();; ++j) {
    while (my_use > their_use) {
      my_use -= mine.entries()[i].bytes;
      my_wait = std::max(my_wait, mine.entries()[i++].end - my_now);
    }
    longest = std::max(longest, my_wait - their_wait);
    if (j == theirs.entries().size()) return longest;
    their_use -= theirs.entries()[j].bytes;
    their_wait = std::max(their_wait, theirs.entries()[j].end - their_now);
  }
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
