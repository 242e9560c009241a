// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama::plan {

/// A run of the flat parameter arrays that is reduced, updated and gathered together; in elements,
/// at multiples of 256.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Groups `segment_ends` (where each tensor's padded place ends, ascending) into buckets of at least
/// `minimum` elements; no tensor is cut. The last bucket takes what is left.
std::vector<Bucket> group_buckets(const std::vector<std::int64_t>& segment_ends,
                                  std::int64_t minimum);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE std::vector<Bucket> group_buckets(const std::vector<std::int64_t>& segment_ends,
                                               std::int64_t minimum) {
  KRAMA_EXPECTS(minimum > 0, "group_buckets: the minimum must be positive, not {}", minimum);
  std::vector<Bucket> buckets;
  std::int64_t begin = 0;
  for (const auto end : segment_ends) {
    KRAMA_EXPECTS(end >= begin, "group_buckets: ends must ascend, {} comes after {}", end, begin);
    if (end - begin < minimum) continue;
    buckets.push_back({begin, end});
    begin = end;
  }
  const std::int64_t total = segment_ends.empty() ? 0 : segment_ends.back();
  if (begin < total) {
    if (buckets.empty()) {
      buckets.push_back({0, total});
    } else {
      buckets.back().end = total;
    }
  }
  return buckets;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
