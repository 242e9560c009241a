// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// Cuts of a flat range of elements into one piece per rank: piece p is [begin(p), end(p)), and rank
/// p owns it. Pieces may be empty; together they cover the range.
class Partition {
 public:
  /// Cuts fall on multiples of this many elements, so that an attribute that holds for a chunk
  /// (weight decay, frozen) holds for all of it on one owner.
  static constexpr std::int64_t chunk = 256;

  Partition() = default;

  /// From cut points: `parts + 1` numbers, first 0, not decreasing; the last is the range's size.
  /// \throws Error when they are not.
  explicit Partition(std::vector<std::int64_t> cuts);

  /// [0, size) in proportion to `weights`, one per rank (any scale): each cut is the multiple of
  /// `unit` nearest to its ideal place. Weight 0 gives an empty piece.
  /// \throws Error for a negative or not finite weight, or when all are 0.
  static Partition by_weight(std::int64_t size, std::span<const double> weights,
                             std::int64_t unit = chunk);

  /// [0, size) in pieces of nearly equal size.
  static Partition even(std::int64_t size, int parts, std::int64_t unit = chunk);

  [[nodiscard]] int parts() const { return cuts_.empty() ? 0 : static_cast<int>(cuts_.size()) - 1; }
  [[nodiscard]] std::int64_t size() const { return cuts_.empty() ? 0 : cuts_.back(); }
  [[nodiscard]] std::int64_t begin(int p) const { return cuts_[static_cast<std::size_t>(p)]; }
  [[nodiscard]] std::int64_t end(int p) const { return cuts_[static_cast<std::size_t>(p) + 1]; }
  [[nodiscard]] std::int64_t count(int p) const { return end(p) - begin(p); }
  [[nodiscard]] std::span<const std::int64_t> cuts() const { return cuts_; }

  friend bool operator==(const Partition&, const Partition&) = default;

 private:
  std::vector<std::int64_t> cuts_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE Partition::Partition(std::vector<std::int64_t> cuts) : cuts_(std::move(cuts)) {
  KRAMA_EXPECTS(cuts_.size() >= 2, "partition: {} cut points; one piece needs two", cuts_.size());
  KRAMA_EXPECTS(cuts_.front() == 0, "partition: the first cut is {}, not 0", cuts_.front());
  for (std::size_t p = 1; p < cuts_.size(); ++p) {
    KRAMA_EXPECTS(cuts_[p - 1] <= cuts_[p], "partition: cut {} is {}, less than cut {}, {}", p,
                  cuts_[p], p - 1, cuts_[p - 1]);
  }
}

KRAMA_INLINE Partition Partition::by_weight(std::int64_t size, std::span<const double> weights,
                                            std::int64_t unit) {
  KRAMA_EXPECTS(size >= 0, "partition: the size is {}", size);
  KRAMA_EXPECTS(unit >= 1, "partition: the unit is {}", unit);
  KRAMA_EXPECTS(!weights.empty(), "partition: no weights; one for each rank is needed");
  double total = 0;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    KRAMA_EXPECTS(std::isfinite(weights[p]) && weights[p] >= 0,
                  "partition: the weight of rank {} is {}; wanted a finite number, 0 or more", p,
                  weights[p]);
    total += weights[p];
  }
  KRAMA_EXPECTS(total > 0 && std::isfinite(total), "partition: the weights add up to {}", total);

  std::vector<std::int64_t> cuts;
  cuts.reserve(weights.size() + 1);
  cuts.push_back(0);
  double running = 0;
  for (const double w : weights) {
    running += w;
    // All ranks must find the same cuts, whatever the rounding of their executables: no product
    // here feeds an addition, so there is nothing for a compiler to contract into an fma.
    const double ideal = static_cast<double>(size) * (running / total);
    const double units = std::floor(ideal / static_cast<double>(unit) + 0.5);
    const bool rest_is_empty = !(running < total);
    const std::int64_t cut =
        rest_is_empty ? size : std::min(size, static_cast<std::int64_t>(units) * unit);
    cuts.push_back(std::max(cut, cuts.back()));
  }
  return Partition(std::move(cuts));
}

KRAMA_INLINE Partition Partition::even(std::int64_t size, int parts, std::int64_t unit) {
  KRAMA_EXPECTS(parts >= 1, "partition: {} parts", parts);
  const std::vector<double> weights(static_cast<std::size_t>(parts), 1.0);
  return by_weight(size, weights, unit);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
