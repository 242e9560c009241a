// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/buckets.hpp>
#include <krama/plan/shares.hpp>

/// State shares: which parts of the optimizer's state each rank holds. They follow memory, as batch
/// shares follow speed, and the two are independent (Cephalo, Guo et al. 2025).
namespace krama::plan {

/// `total` chunks in proportion to `weights` (a rank's memory, say), nobody beyond its cap: within one
/// chunk of the exact proportion for ranks that no cap binds, the caps' rest going to them. Empty caps:
/// none. The same on executables that round differently.
/// \throws Error when the caps together hold less than `total`.
Shares share_state(std::int64_t total, std::span<const double> weights,
                   std::span<const std::int64_t> caps = {});

/// Cuts every bucket among the ranks, at multiples of `chunk` elements, so that each rank holds
/// `shares[r]` chunks in all and about the same part of every bucket: chunk after chunk goes to the
/// rank that is furthest behind. One list of cut points a bucket, from 0 to its size. All whole
/// numbers, so all ranks find the same cuts.
std::vector<std::vector<std::int64_t>> cut_buckets(const std::vector<Bucket>& buckets,
                                                   const Shares& shares, std::int64_t chunk);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE Shares share_state(std::int64_t total, std::span<const double> weights,
                                std::span<const std::int64_t> caps) {
  const std::size_t ranks = weights.size();
  KRAMA_EXPECTS(caps.empty() || caps.size() == ranks, "state shares: {} caps for {} ranks",
                caps.size(), ranks);
  if (caps.empty()) return split_batch(total, weights);
  std::int64_t room = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    KRAMA_EXPECTS(caps[r] >= 0, "state shares: the cap of rank {} is {}", r, caps[r]);
    room += std::min(caps[r], total);
  }
  KRAMA_EXPECTS(room >= total,
                "state shares: the optimizer's state has {} chunks of 256, the ranks can hold {} "
                "together; give them more memory or add ranks",
                total, room);
  std::vector<double> open(weights.begin(), weights.end());
  Shares shares(ranks, 0);
  for (std::int64_t left = total;;) {
    bool none = true;
    for (const double w : open) none = none && !(w > 0);
    // Only ranks of weight 0 have room left: they take it all the same rather than nobody.
    for (std::size_t r = 0; none && r < ranks; ++r) open[r] = shares[r] < caps[r] ? 1.0 : 0.0;
    const Shares wanted = split_batch(left, open);
    bool bound = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (open[r] > 0 && shares[r] + wanted[r] > caps[r]) {
        left -= caps[r] - shares[r];
        shares[r] = caps[r];
        open[r] = 0;
        bound = true;
      }
    }
    if (bound) continue;
    for (std::size_t r = 0; r < ranks; ++r) shares[r] += wanted[r];
    return shares;
  }
}

KRAMA_INLINE std::vector<std::vector<std::int64_t>> cut_buckets(const std::vector<Bucket>& buckets,
                                                                const Shares& shares,
                                                                std::int64_t chunk) {
  const auto chunks_of = [chunk](const Bucket& b) { return (b.size() + chunk - 1) / chunk; };
  std::int64_t total = 0;
  std::int64_t given_out = 0;
  for (const auto& b : buckets) total += chunks_of(b);
  for (const auto s : shares) given_out += s;
  KRAMA_EXPECTS(given_out == total, "state shares: {} chunks are shared out, there are {}",
                given_out, total);
  std::vector<std::vector<std::int64_t>> cuts;
  Shares held(shares.size(), 0);
  std::int64_t before = 0;
  for (const auto& b : buckets) {
    const std::int64_t here = chunks_of(b);
    Shares piece(shares.size(), 0);
    // What everybody has for sure by the end of this bucket; the rest one by one.
    std::int64_t left = here;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      const std::int64_t due = shares[r] * (before + here) / std::max<std::int64_t>(1, total);
      piece[r] = std::clamp(due - held[r], std::int64_t{0}, left);
      held[r] += piece[r];
      left -= piece[r];
    }
    for (; left > 0; --left) {
      std::size_t next = shares.size();
      std::int64_t most = 0;
      for (std::size_t r = 0; r < shares.size(); ++r) {
        if (held[r] >= shares[r]) continue;
        const std::int64_t behind = shares[r] * (before + here) - held[r] * total;
        if (next == shares.size() || behind > most) {
          next = r;
          most = behind;
        }
      }
      ++held[next];
      ++piece[next];
    }
    before += here;
    auto& c = cuts.emplace_back(1, 0);
    for (const auto n : piece) c.push_back(std::min(b.size(), c.back() + n * chunk));
  }
  return cuts;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
