// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

/// Shares: how many samples of the global batch each rank takes. Whole numbers, one a rank, that
/// always add up to the global batch.
namespace krama::plan {

using Shares = std::vector<std::int64_t>;

/// Samples that each rank must and may take: minima keep a rank measured, maxima are its memory.
/// Empty vectors: no limit.
struct ShareLimits {
  Shares minimum = {};
  Shares maximum = {};

  [[nodiscard]] std::int64_t least(std::size_t r) const { return minimum.empty() ? 0 : minimum[r]; }
  [[nodiscard]] std::int64_t most(std::size_t r) const {
    return maximum.empty() ? std::numeric_limits<std::int64_t>::max() : maximum[r];
  }
  [[nodiscard]] bool allow(std::size_t r, std::int64_t samples) const {
    return samples >= least(r) && samples <= most(r);
  }
};

/// \throws Error when no shares keep the limits; a rank whose maximum cannot hold its minimum is
/// named, with both.
void check_limits(std::int64_t batch, std::size_t ranks, const ShareLimits& limits);

/// How many of `batch` samples each rank takes, in proportion to `weights`: largest remainders, ties
/// to the lower rank; a rank of weight 0 takes none. Sums to `batch` exactly. The same on executables
/// that round differently: no product here feeds an addition, so there is nothing to contract.
Shares split_batch(std::int64_t batch, std::span<const double> weights);

/// "rank 0 60, rank 1 180 of 240 samples"; neighbours with the same share are named together.
std::string describe(std::span<const std::int64_t> shares);

/// One decision: from step `step` (counted from 0) on, `after` holds.
struct ShareChange {
  std::int64_t step = 0;
  Shares before;  ///< empty at the start
  Shares after;
  std::string reason;

  /// The line that a user sees.
  [[nodiscard]] std::string line() const;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE void check_limits(std::int64_t batch, std::size_t ranks, const ShareLimits& limits) {
  KRAMA_EXPECTS(batch > 0 && ranks > 0, "shares: a batch of {} over {} ranks", batch, ranks);
  const auto right = [&](const Shares& s) { return s.empty() || s.size() == ranks; };
  KRAMA_EXPECTS(right(limits.minimum) && right(limits.maximum),
                "shares: {} minima and {} maxima are given for {} ranks", limits.minimum.size(),
                limits.maximum.size(), ranks);
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    KRAMA_EXPECTS(limits.least(r) >= 0, "shares: the minimum of rank {} is {}", r, limits.least(r));
    KRAMA_EXPECTS(limits.most(r) >= limits.least(r),
                  "shares: rank {} can hold {} samples and must take at least {}; give it more "
                  "memory or a smaller minimum",
                  r, limits.most(r), limits.least(r));
    least += std::min(limits.least(r), batch + 1);
    most += std::min(limits.most(r), batch);  // no more is wanted of anybody
  }
  KRAMA_EXPECTS(least <= batch, "shares: the ranks must take {} samples, the global batch has {}",
                least, batch);
  KRAMA_EXPECTS(most >= batch,
                "shares: the global batch has {} samples, the ranks can hold {} together; make it "
                "smaller or give the ranks more memory",
                batch, most);
}

KRAMA_INLINE Shares split_batch(std::int64_t batch, std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) {
    KRAMA_EXPECTS(w >= 0 && w < 1e300, "a share is {}; it must be zero or more", w);
    total += w;
  }
  KRAMA_EXPECTS(total > 0, "all {} shares are zero", weights.size());
  Shares counts;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t given = 0;
  for (std::size_t r = 0; r < weights.size(); ++r) {
    const double ideal = static_cast<double>(batch) * weights[r] / total;
    counts.push_back(static_cast<std::int64_t>(ideal));
    remainders.emplace_back(static_cast<double>(counts.back()) - ideal, r);
    given += counts.back();
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t k = 0; given < batch; ++given, ++k) {
    ++counts[remainders[k % remainders.size()].second];
  }
  return counts;
}

KRAMA_INLINE std::string describe(std::span<const std::int64_t> shares) {
  std::string text;
  std::int64_t batch = 0;
  for (std::size_t r = 0; r < shares.size();) {
    std::size_t end = r;
    while (end < shares.size() && shares[end] == shares[r]) batch += shares[end++];
    text += text.empty() ? "" : ", ";
    text += end == r + 1 ? fmt::format("rank {} {}", r, shares[r])
                         : fmt::format("ranks {}-{} {} each", r, end - 1, shares[r]);
    r = end;
  }
  return fmt::format("{} of {} samples", text, batch);
}

KRAMA_INLINE std::string ShareChange::line() const {
  std::string was;
  for (std::size_t r = 0; r < before.size(); ++r) {
    was += fmt::format("{}{}", r == 0 ? " (was " : ":", before[r]);
  }
  if (!was.empty()) was += ")";
  return fmt::format("shares from step {}: {}{}: {}", step + 1, describe(after), was, reason);
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
