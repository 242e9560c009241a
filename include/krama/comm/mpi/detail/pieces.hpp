// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <krama/comm/mpi/detail/state.hpp>
#include <krama/comm/mpi/detail/sum.hpp>
#include <krama/comm/partition.hpp>

namespace krama::comm::detail {

/// Moves the pieces of a partition between all ranks, pairwise, in chunks: to their owners, who add
/// them up in rank order (`reduce`), or from their owners to everybody (`gather`), or both, in which
/// case a chunk leaves its owner as soon as it is summed, while the next ones still arrive and its
/// bytes are still in the cache.
///
/// With rank r owning piece r and chunk c of each piece:
///   reduce: send my chunk (p, c) to p; receive everybody's chunk (r, c) into scratch; sum; store.
///   gather: send my finished chunk (r, c) to everybody; receive chunk (p, c) in place from p.
/// Chunks of one pair and phase are sent and received in order, so MPI's ordering matches them.
template <class A>
class Pieces {
 public:
  /// `data`: the whole range. `A` matters only for sums; a gather moves bytes.
  Pieces(State& state, A* data, const Partition& partition, int tag, bool reduce, bool gather)
      : s_(state),
        data_(data),
        cuts_(partition.cuts()),
        tag_(tag),
        reduce_(reduce),
        gather_(gather),
        window_(std::max(1, state.options.chunks_in_flight)),
        peers_(static_cast<std::size_t>(state.size)) {
    const auto size = static_cast<std::int64_t>(sizeof(A));
    chunk_ = std::clamp<std::int64_t>(s_.options.chunk_bytes / size, 1, s_.options.max_count);
    // With many ranks the scratch for everybody's incoming chunks must not grow without bound.
    constexpr std::int64_t most_scratch = std::int64_t{32} * 1024 * 1024;
    const std::int64_t slots = std::int64_t{window_} * std::max(1, s_.size - 1);
    chunk_ = std::max<std::int64_t>(1, std::min(chunk_, most_scratch / (slots * size)));
    mine_ = chunks_of(s_.rank);
    arrived_.assign(static_cast<std::size_t>(window_), 0);
    sources_.resize(static_cast<std::size_t>(s_.size));
    if (reduce_) {
      chunk_slot_ = std::min(chunk_, std::max<std::int64_t>(1, count_of(s_.rank)));
      s_.scratch.at_least(static_cast<std::size_t>(slots * chunk_slot_ * size));
    } else {
      summed_ = mine_;
    }
  }

  void run(const Waiting& waiting) {
    for (int i = 1; i < s_.size; ++i) {
      const int p = (s_.rank + i) % s_.size;
      Peer& peer = peers_[static_cast<std::size_t>(p)];
      peer.sent_ok.assign(static_cast<std::size_t>(window_), false);
      if (reduce_) {
        for (std::int64_t c = 0; c < std::min<std::int64_t>(window_, mine_); ++c) take(p, c);
        for (int w = 0; w < window_; ++w) give(p);
      } else {
        for (std::int64_t c = 0; c < chunks_of(p); ++c) fetch(p, c);
      }
      if (gather_) offer(p);
    }
    while (!s_.flight.empty()) {
      s_.flight.wait_some(waiting, [this](std::int64_t token) { complete(token); });
    }
  }

 private:
  enum Kind : std::int64_t { given, taken, offered, fetched };

  struct Peer {
    std::int64_t next_give = 0;   ///< next chunk of the peer's piece to send to it
    std::int64_t next_fetch = 0;  ///< its chunks up to here have left: the finished may come back
    std::vector<bool> sent_ok;    ///< chunk c (at c modulo the window) has left
    std::int64_t next_offer = 0;  ///< next finished chunk of mine to send to it
    int offers = 0;               ///< of those, how many are under way
  };

  [[nodiscard]] std::int64_t begin_of(int p) const { return cuts_[static_cast<std::size_t>(p)]; }
  [[nodiscard]] std::int64_t count_of(int p) const {
    return cuts_[static_cast<std::size_t>(p) + 1] - begin_of(p);
  }
  [[nodiscard]] std::int64_t chunks_of(int p) const { return (count_of(p) + chunk_ - 1) / chunk_; }
  [[nodiscard]] std::int64_t length(int p, std::int64_t c) const {
    return std::min(chunk_, count_of(p) - c * chunk_);
  }
  [[nodiscard]] std::int64_t bytes(int p, std::int64_t c) const {
    return length(p, c) * static_cast<std::int64_t>(sizeof(A));
  }
  [[nodiscard]] A* at(int p, std::int64_t c) const { return data_ + begin_of(p) + c * chunk_; }
  [[nodiscard]] A* slot(int p, std::int64_t c) const {
    const std::int64_t row = (p - s_.rank + s_.size) % s_.size - 1;
    return reinterpret_cast<A*>(s_.scratch.data()) + (row * window_ + c % window_) * chunk_slot_;
  }
  [[nodiscard]] std::int64_t token(Kind kind, int p, std::int64_t c) const {
    return (c * s_.size + p) * 4 + kind;
  }

  void give(int p) {
    Peer& peer = peers_[static_cast<std::size_t>(p)];
    if (peer.next_give >= chunks_of(p)) return;
    const std::int64_t c = peer.next_give++;
    s_.flight.send(s_.bulk, at(p, c), bytes(p, c), p, tag_, token(given, p, c));
  }
  void take(int p, std::int64_t c) {
    s_.flight.receive(s_.bulk, slot(p, c), bytes(s_.rank, c), p, tag_, token(taken, p, c));
  }
  void offer(int p) {
    Peer& peer = peers_[static_cast<std::size_t>(p)];
    while (peer.offers < window_ && peer.next_offer < summed_) {
      const std::int64_t c = peer.next_offer++;
      ++peer.offers;
      s_.flight.send(s_.bulk, at(s_.rank, c), bytes(s_.rank, c), p, tag_ | gather_bit,
                     token(offered, p, c));
    }
  }
  void fetch(int p, std::int64_t c) {
    s_.flight.receive(s_.bulk, at(p, c), bytes(p, c), p, tag_ | gather_bit, token(fetched, p, c));
  }

  void complete(std::int64_t token) {
    const int p = static_cast<int>((token / 4) % s_.size);
    const std::int64_t c = token / 4 / s_.size;
    Peer& peer = peers_[static_cast<std::size_t>(p)];
    switch (static_cast<Kind>(token % 4)) {
      case given:
        if (gather_) {
          // The memory is free for the finished chunk only now; sends may complete out of order,
          // receives are posted in it.
          peer.sent_ok[static_cast<std::size_t>(c % window_)] = true;
          while (peer.next_fetch < peer.next_give &&
                 peer.sent_ok[static_cast<std::size_t>(peer.next_fetch % window_)]) {
            peer.sent_ok[static_cast<std::size_t>(peer.next_fetch % window_)] = false;
            fetch(p, peer.next_fetch++);
            give(p);
          }
        } else {
          give(p);
        }
        break;
      case taken:
        ++arrived_[static_cast<std::size_t>(c % window_)];
        sum_arrived();
        break;
      case offered:
        --peer.offers;
        offer(p);
        break;
      case fetched:
        break;
    }
  }

  void sum_arrived() {
    while (summed_ < mine_ &&
           arrived_[static_cast<std::size_t>(summed_ % window_)] == s_.size - 1) {
      const std::int64_t c = summed_;
      arrived_[static_cast<std::size_t>(c % window_)] = 0;
      for (int r = 0; r < s_.size; ++r) {
        sources_[static_cast<std::size_t>(r)] = r == s_.rank ? at(r, c) : slot(r, c);
      }
      if constexpr (Reducible<A>) {  // others are only gathered
        sum_in_order(at(s_.rank, c), std::span<const A* const>(sources_), length(s_.rank, c));
      }
      ++summed_;
      for (int i = 1; i < s_.size; ++i) {
        const int p = (s_.rank + i) % s_.size;
        if (gather_) offer(p);
        if (c + window_ < mine_) take(p, c + window_);
      }
    }
  }

  static constexpr int gather_bit = 0x4000;

  State& s_;
  A* data_;
  std::span<const std::int64_t> cuts_;
  int tag_;
  bool reduce_;
  bool gather_;
  int window_;
  std::int64_t chunk_ = 0;
  std::int64_t chunk_slot_ = 0;
  std::int64_t mine_ = 0;     ///< chunks of my piece
  std::int64_t summed_ = 0;   ///< of those, finished
  std::vector<int> arrived_;  ///< how many peers' chunk c (modulo the window) is here
  std::vector<const A*> sources_;
  std::vector<Peer> peers_;
};

}  // namespace krama::comm::detail
