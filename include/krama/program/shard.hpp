// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <krama/comm/partition.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/plan/buckets.hpp>
#include <krama/plan/state_shares.hpp>

namespace krama {

/// Which parts of the flat parameters this rank owns: one piece of every bucket, cut at chunk
/// boundaries, so that what each rank owns in all follows its weight to within one chunk. Optimizer
/// state exists only for owned pieces, packed one behind the other. All ranks compute the same cuts
/// from the same numbers.
class Shard {
 public:
  Shard() = default;
  /// `caps`: elements that each rank can own at most; empty: any number.
  Shard(const std::vector<plan::Bucket>& buckets, std::span<const double> weights, int rank,
        std::span<const std::int64_t> caps = {})
      : buckets_(buckets), rank_(rank) {
    std::int64_t chunks = 0;
    for (const auto& b : buckets) chunks += (b.size() + chunk_size - 1) / chunk_size;
    std::vector<std::int64_t> most;
    for (const auto c : caps) most.push_back(c / chunk_size);
    const auto shares = plan::share_state(chunks, weights, most);
    for (auto& cuts : plan::cut_buckets(buckets, shares, chunk_size)) {
      partitions_.emplace_back(std::move(cuts));
      packed_.push_back(owned_);
      owned_ += partitions_.back().count(rank);
    }
  }

  [[nodiscard]] int bucket_count() const { return static_cast<int>(buckets_.size()); }
  [[nodiscard]] const plan::Bucket& bucket(int k) const {
    return buckets_[static_cast<std::size_t>(k)];
  }
  [[nodiscard]] const Partition& partition(int k) const {
    return partitions_[static_cast<std::size_t>(k)];
  }
  /// This rank's piece of bucket k in the flat arrays.
  [[nodiscard]] std::int64_t begin(int k) const {
    return bucket(k).begin + partition(k).begin(rank_);
  }
  [[nodiscard]] std::int64_t count(int k) const { return partition(k).count(rank_); }
  /// Where that piece begins in the packed state arrays.
  [[nodiscard]] std::int64_t packed(int k) const { return packed_[static_cast<std::size_t>(k)]; }
  /// Elements this rank owns in all.
  [[nodiscard]] std::int64_t owned() const { return owned_; }

 private:
  std::vector<plan::Bucket> buckets_;
  std::vector<Partition> partitions_;
  std::vector<std::int64_t> packed_;
  std::int64_t owned_ = 0;
  int rank_ = 0;
};

}  // namespace krama
