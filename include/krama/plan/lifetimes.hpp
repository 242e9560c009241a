// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

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

  [[nodiscard]] bool overlaps(const Lifetime& other) const;
};

/// Where each piece lies, and how much memory all of them need.
struct Placement {
  std::vector<std::int64_t> offsets;
  std::int64_t peak = 0;
};

/// The largest sum of pieces that are alive together: no placement can need less.
std::int64_t largest_live(const std::vector<Lifetime>& pieces);

namespace detail {

constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Each piece, in the order given, at the lowest place that is free during its whole life.
Placement place_in_order(const std::vector<Lifetime>& pieces, const std::vector<std::size_t>& order,
                         std::int64_t alignment);

}  // namespace detail

/// Static offsets for pieces with known lifetimes; sizes are rounded up to `alignment`. Several orders
/// are tried: largest first, largest area first, longest first, earliest first. The best is improved
/// by placing earlier what stood at the top, while there is waste and time.
Placement place(const std::vector<Lifetime>& pieces, std::int64_t alignment = 64);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE bool Lifetime::overlaps(const Lifetime& other) const {
  if (by_link && first > other.link_after) return false;
  if (other.by_link && other.first > link_after) return false;
  return first <= other.last && other.first <= last;
}

KRAMA_INLINE std::int64_t largest_live(const std::vector<Lifetime>& pieces) {
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

}  // namespace krama::plan

namespace krama::plan::detail {

KRAMA_INLINE Placement place_in_order(const std::vector<Lifetime>& pieces,
                                      const std::vector<std::size_t>& order,
                                      std::int64_t alignment) {
  Placement out;
  out.offsets.assign(pieces.size(), 0);
  std::vector<std::size_t> placed;
  std::vector<std::size_t> rivals;
  for (const auto i : order) {
    if (pieces[i].bytes == 0 || pieces[i].last < pieces[i].first) continue;
    rivals.clear();
    for (const auto j : placed) {
      if (pieces[i].overlaps(pieces[j])) rivals.push_back(j);
    }
    std::sort(rivals.begin(), rivals.end(),
              [&](std::size_t x, std::size_t y) { return out.offsets[x] < out.offsets[y]; });
    const std::int64_t bytes = round_up(pieces[i].bytes, alignment);
    std::int64_t at = 0;
    for (const auto j : rivals) {
      if (at + bytes <= out.offsets[j]) break;
      at = std::max(at, out.offsets[j] + round_up(pieces[j].bytes, alignment));
    }
    out.offsets[i] = at;
    out.peak = std::max(out.peak, at + bytes);
    placed.push_back(i);
  }
  return out;
}

}  // namespace krama::plan::detail

namespace krama::plan {

KRAMA_INLINE Placement place(const std::vector<Lifetime>& pieces, std::int64_t alignment) {
  using Keys = std::vector<double>;
  const std::size_t n = pieces.size();
  std::vector<Lifetime> rounded = pieces;
  for (auto& p : rounded) p.bytes = detail::round_up(p.bytes, alignment);
  const std::int64_t least = largest_live(rounded);
  Placement best;
  std::vector<std::size_t> order(n);
  std::vector<std::size_t> best_order;
  const auto consider = [&](const std::vector<std::size_t>& tried) {
    Placement p = detail::place_in_order(pieces, tried, alignment);
    if (!best_order.empty() && p.peak >= best.peak) return p;
    best = p;
    best_order = tried;
    return p;
  };
  for (int way = 0; way < 4 && (best_order.empty() || best.peak > least); ++way) {
    Keys key(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto length = static_cast<double>(pieces[i].last - pieces[i].first + 1);
      const auto bytes = static_cast<double>(pieces[i].bytes);
      key[i] = way == 0 ? bytes : way == 1 ? bytes * length : way == 2 ? length : -pieces[i].first;
    }
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key[a] > key[b]; });
    consider(order);
  }
  // A quadratic number of comparisons each: large problems get few tries.
  const std::size_t tries = std::min<std::size_t>(400, 8'000'000 / (n * n + 1));
  order = best_order;
  Placement now = best;
  for (std::size_t t = 0; t < tries && best.peak > least; ++t) {
    const auto top = std::find_if(order.begin(), order.end(), [&](std::size_t i) {
      return pieces[i].bytes > 0 &&
             now.offsets[i] + detail::round_up(pieces[i].bytes, alignment) == now.peak;
    });
    if (top == order.end() || top == order.begin()) break;
    // A little further forward each time that it comes up again.
    const auto to =
        static_cast<std::ptrdiff_t>((t * 7919) % static_cast<std::size_t>(top - order.begin()));
    std::rotate(order.begin() + to, top, top + 1);
    now = consider(order);
  }
  return best;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
