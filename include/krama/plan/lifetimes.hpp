// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <krama/core/error.hpp>

namespace krama::plan {

/// A piece of memory that must exist from instruction `first` to instruction `last`, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = -1;
  /// From here on the link is done with it in its own order, so what the link brings may take its
  /// place although nobody has waited yet.
  int link_after = std::numeric_limits<int>::max();
  bool by_link = false;  ///< the link brings it

  [[nodiscard]] bool overlaps(const Lifetime& other) const {
    if (by_link && first > other.link_after) return false;
    if (other.by_link && other.first > link_after) return false;
    return first <= other.last && other.first <= last;
  }
};

/// Where each piece lies, and how much memory all of them need.
struct Placement {
  std::vector<std::int64_t> offsets;
  std::int64_t peak = 0;
};

/// The largest sum of pieces that are alive together: no placement can need less.
inline std::int64_t largest_live(const std::vector<Lifetime>& pieces) {
  std::int64_t largest = 0;
  for (const auto& p : pieces) {
    std::int64_t live = 0;
    for (const auto& q : pieces) {
      if (q.first <= p.first && p.first <= q.last && p.overlaps(q)) live += q.bytes;
    }
    largest = std::max(largest, live);
  }
  return largest;
}

/// Static offsets for pieces with known lifetimes: largest first, each at the lowest place that is
/// free during its whole life. Sizes are rounded up to `alignment`.
inline Placement place(const std::vector<Lifetime>& pieces, std::int64_t alignment = 64) {
  const auto round_up = [&](std::int64_t b) { return (b + alignment - 1) / alignment * alignment; };
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].bytes > pieces[b].bytes; });
  Placement out;
  out.offsets.assign(pieces.size(), 0);
  std::vector<std::size_t> placed;
  for (const auto i : order) {
    if (pieces[i].bytes == 0 || pieces[i].last < pieces[i].first) continue;
    std::vector<std::size_t> rivals;
    for (const auto j : placed) {
      if (pieces[i].overlaps(pieces[j])) rivals.push_back(j);
    }
    std::sort(rivals.begin(), rivals.end(),
              [&](std::size_t a, std::size_t b) { return out.offsets[a] < out.offsets[b]; });
    std::int64_t at = 0;
    for (const auto j : rivals) {
      if (at + round_up(pieces[i].bytes) <= out.offsets[j]) break;
      at = std::max(at, out.offsets[j] + round_up(pieces[j].bytes));
    }
    out.offsets[i] = at;
    out.peak = std::max(out.peak, at + round_up(pieces[i].bytes));
    placed.push_back(i);
  }
  return out;
}

}  // namespace krama::plan
