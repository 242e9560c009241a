// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace krama::comm::detail {

/// out[i] = ((s0[i] + s1[i]) + s2[i]) + …, i < n; `out` may be one of the sources. Additions only,
/// so no compiler's contraction changes a bit.
template <class A>
void sum_in_order(A* out, std::span<const A* const> sources, std::int64_t n) {
  // A block of fixed length that aliases nothing: compilers vectorise it at any optimisation level,
  // and it stays in the first-level cache while the sources are read one after another.
  constexpr std::int64_t block = 512;
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(A));
  alignas(64) A sum[block];
  std::int64_t at = 0;
  for (; at + block <= n; at += block) {
    if (at + 2 * block <= n) {
      // The peers have read `out` since it was last written, and taking a line back from another
      // core's cache takes long: ask for the next block's lines while this one is added.
      for (std::int64_t i = 0; i < block; i += line) __builtin_prefetch(out + at + block + i, 1);
    }
    const A* first = sources[0] + at;
    if (sources.size() == 2) {
      const A* second = sources[1] + at;
      for (std::int64_t i = 0; i < block; ++i) sum[i] = first[i] + second[i];
    } else {
      for (std::int64_t i = 0; i < block; ++i) sum[i] = first[i];
      for (std::size_t r = 1; r < sources.size(); ++r) {
        const A* next = sources[r] + at;
        for (std::int64_t i = 0; i < block; ++i) sum[i] += next[i];
      }
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
