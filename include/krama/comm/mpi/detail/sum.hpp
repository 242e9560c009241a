// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace krama::comm::detail {

/// out[i] += other[i], i < n, of memory that does not overlap: the sum of two ranks, whose order does
/// not matter to its bits.
template <class A>
void add_other(A* __restrict__ out, const A* __restrict__ other, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += other[i];
}

/// out[i] = ((s0[i] + s1[i]) + s2[i]) + …, i < n; `out` may be one of the sources. Additions only,
/// so no compiler's contraction changes a bit.
template <class A>
void sum_in_order(A* out, std::span<const A* const> sources, std::int64_t n) {
  // A block of fixed length that aliases nothing: compilers vectorise it at any optimisation level,
  // and it stays in the first-level cache while the sources are read one after another.
  constexpr std::int64_t block = 512;
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(A));
  alignas(64) A sum[block];
  const bool in_place = sources.size() == 2 && (sources[0] == out || sources[1] == out);
  const A* other = in_place ? sources[sources[0] == out ? 1 : 0] : nullptr;
  std::int64_t at = 0;
  for (; at + block <= n; at += block) {
    if (at + 2 * block <= n) {
      // The peers have read `out` since it was last written, and taking a line back from another
      // core's cache takes long: ask for the next block's lines while this one is added.
      for (std::int64_t i = 0; i < block; i += line) __builtin_prefetch(out + at + block + i, 1);
    }
    if (in_place) {
      add_other(out + at, other + at, block);
      continue;
    }
    const A* first = sources[0] + at;
    for (std::int64_t i = 0; i < block; ++i) sum[i] = first[i];
    for (std::size_t r = 1; r < sources.size(); ++r) {
      const A* next = sources[r] + at;
      for (std::int64_t i = 0; i < block; ++i) sum[i] += next[i];
    }
    std::copy(sum, sum + block, out + at);
  }
  for (; at < n; ++at) {
    A total = sources[0][at];
    for (std::size_t r = 1; r < sources.size(); ++r) total += sources[r][at];
    out[at] = total;
  }
}

}  // namespace krama::comm::detail
