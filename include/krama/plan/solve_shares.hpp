// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include <krama/plan/shares.hpp>

namespace krama::plan {

/// When a rank's step ends, given when its own work does. Communication that starts at the part
/// `ready` of the work (its first bucket of gradients) and takes `overlapped` runs beside the rest of
/// the work; `last` follows both. A step is then bound by computing or by communicating, and both
/// kinds can meet in one job (the cases of Cannikin's OptPerf, Nie, Maghakian, Liu 2024).
/// As it stands: nothing overlaps, nothing but the work counts.
struct BorderTimes {
  double ready = 1.0;
  double overlapped = 0.0;
  double last = 0.0;

  [[nodiscard]] double end_of(double work) const {
    return std::max(work, ready * work + overlapped) + last;
  }
};

namespace detail {
/// The most samples, from `shares[r]` to `most`, with which rank r ends by `end`.
template <class Cost>
std::int64_t most_until(double end, std::size_t r, std::int64_t least, std::int64_t most,
                        Cost&& cost) {
  std::int64_t low = least;
  std::int64_t high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (cost(r, middle) <= end) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Hands out most of `left` samples at once: as many as end by a time that is just early enough. One
/// by one they would have gone to the same ranks, since those that end earlier come first.
template <class Cost>
std::int64_t hand_out(std::int64_t left, const ShareLimits& limits, Shares& shares, Cost&& cost) {
  double early = 0;
  double late = 0;
  const auto top = [&](std::size_t r) { return std::min(limits.most(r), shares[r] + left); };
  for (std::size_t r = 0; r < shares.size(); ++r) late = std::max(late, cost(r, top(r)));
  const auto until = [&](double end) {
    Shares s;
    std::int64_t given = 0;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      s.push_back(most_until(end, r, shares[r], top(r), cost));
      given += s[r] - shares[r];
    }
    return std::pair(given, std::move(s));
  };
  for (int i = 0; i < 60; ++i) {
    const double middle = early + (late - early) / 2;
    (until(middle).first <= left ? early : late) = middle;
  }
  auto [given, s] = until(early);
  if (given > left) return left;  // everything costs nothing
  shares = std::move(s);
  return left - given;
}
}  // namespace detail

/// Shares with which the last rank ends as early as any whole numbers allow:
///
///     minimise max_r cost(r, n_r)  with  sum n_r = batch,  least(r) <= n_r <= most(r).
///
/// `cost(r, n)` must not fall with n; it may be a line, a staircase (micro-batches) or a measured
/// curve. Each sample goes to the rank that would end first with it, ties to the lower rank; that is
/// exact, because a sample that a rank cannot take in time T it cannot take later either.
/// \throws Error when the limits cannot be kept.
template <class Cost>
  requires std::invocable<Cost&, std::size_t, std::int64_t>
Shares solve_shares(std::int64_t batch, std::size_t ranks, const ShareLimits& limits, Cost&& cost) {
  check_limits(batch, ranks, limits);
  constexpr std::int64_t many = 2048;
  Shares shares;
  std::int64_t left = batch;
  for (std::size_t r = 0; r < ranks; ++r) left -= shares.emplace_back(limits.least(r));
  if (left > many) left = detail::hand_out(left, limits, shares, cost);
  using Next = std::pair<double, std::size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto offer = [&](std::size_t r) {
    if (shares[r] < limits.most(r)) next.emplace(cost(r, shares[r] + 1), r);
  };
  for (std::size_t r = 0; r < ranks; ++r) offer(r);
  for (; left > 0; --left) {
    const std::size_t r = next.top().second;
    next.pop();
    ++shares[r];
    offer(r);
  }
  return shares;
}

/// The end of the last rank.
template <class Cost>
double slowest(const Shares& shares, Cost&& cost) {
  double end = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) end = std::max(end, cost(r, shares[r]));
  return end;
}

}  // namespace krama::plan
