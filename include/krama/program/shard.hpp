// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <krama/comm/partition.hpp>
#include <krama/definitions.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/nn/model.hpp>
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
  /// `parameter_buckets` of the buckets hold parameters, the rest buffers, which are shared out by
  /// weight. `caps`: elements of parameters that each rank can own at most; empty: any number.
  Shard(const std::vector<plan::Bucket>& buckets, std::span<const double> weights, int rank,
        int parameter_buckets, std::span<const std::int64_t> caps = {});
  [[nodiscard]] int bucket_count() const { return static_cast<int>(buckets_.size()); }
  /// Buckets from this one on hold buffers: they are committed, not optimised.
  [[nodiscard]] int parameter_buckets() const { return parameter_buckets_; }
  [[nodiscard]] bool holds_buffers(int k) const { return k >= parameter_buckets_; }
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
  int parameter_buckets_ = 0;
};

/// For each bucket the last block of a backward pass that adds to it. Tied parameters are complete
/// only after the first of the blocks that share them; buffers were proposed in forward.
template <Device D, Scalar T>
std::vector<int> last_blocks(const nn::Model<D, T>& model, const ParamStore<T, mem_of<D>>& store,
                             const Shard& shard) {
  std::vector<int> last(static_cast<std::size_t>(shard.bucket_count()),
                        std::max(0, model.block_count() - 1));
  for (int b = model.block_count() - 1; b >= 0; --b) {
    const auto& block = model.block_at(b);
    for (std::int64_t i = 0; i < block.param_count(); ++i) {
      const Segment& s = store.segment_of(block.first_param() + i);
      for (int k = 0; k < shard.bucket_count(); ++k) {
        const bool inside =
            s.offset < shard.bucket(k).end && s.offset + s.size > shard.bucket(k).begin;
        if (inside) last[static_cast<std::size_t>(k)] = b;
      }
    }
  }
  return last;
}

/// Cuts a store into buckets of at least `bucket_elements`, buffers apart from parameters, and shares
/// each out among the ranks by `weights` (empty: equally) as far as their `caps` allow (elements of
/// parameters; empty: any number).
template <Scalar T, MemorySpace M>
Shard make_shard(const ParamStore<T, M>& store, std::int64_t bucket_elements,
                 std::vector<double> weights, std::span<const std::int64_t> caps, int rank,
                 int ranks) {
  std::vector<std::int64_t> ends;
  for (const auto& s : store.segments()) {
    if (s.buffer) continue;
    ends.push_back((s.offset + s.size + chunk_size - 1) / chunk_size * chunk_size);
  }
  auto buckets = plan::group_buckets(ends, bucket_elements);
  const auto parameters = static_cast<int>(buckets.size());
  if (store.has_buffers()) buckets.push_back({store.buffers_begin(), store.size()});
  if (weights.empty()) weights.assign(static_cast<std::size_t>(ranks), 1.0);
  KRAMA_EXPECTS(static_cast<int>(weights.size()) == ranks, "owner weights: {} given for {} ranks",
                weights.size(), ranks);
  return Shard(buckets, weights, rank, parameters, caps);
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE Shard::Shard(const std::vector<plan::Bucket>& buckets, std::span<const double> weights,
                          int rank, int parameter_buckets, std::span<const std::int64_t> caps)
    : buckets_(buckets), rank_(rank), parameter_buckets_(parameter_buckets) {
  const std::vector<plan::Bucket> parameters(buckets.begin(), buckets.begin() + parameter_buckets);
  std::int64_t chunks = 0;
  for (const auto& b : parameters) chunks += (b.size() + chunk_size - 1) / chunk_size;
  std::vector<std::int64_t> most;
  for (const auto c : caps) most.push_back(c / chunk_size);
  const auto shares = plan::share_state(chunks, weights, most);
  for (auto& cuts : plan::cut_buckets(parameters, shares, chunk_size)) {
    partitions_.emplace_back(std::move(cuts));
  }
  for (int k = parameter_buckets; k < bucket_count(); ++k) {
    partitions_.push_back(Partition::by_weight(bucket(k).size(), weights, chunk_size));
  }
  for (const auto& partition : partitions_) {
    packed_.push_back(owned_);
    owned_ += partition.count(rank);
  }
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
