// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/mpi/detail/state.hpp>
#include <krama/comm/mpi/detail/sum.hpp>
#include <krama/comm/route.hpp>
#include <krama/comm/wire_encoding.hpp>

namespace krama::comm::detail {

/// Runs one reduction (`reduce`), gather (`gather`) or both along a route. A chunk goes up as soon
/// as this rank's part of its sum is complete, and down as soon as it is finished, while others
/// still arrive and its bytes are still in the cache.
///
///   up:   children's sums arrive in scratch; add them and my own values, in rank order, in place;
///         send to the parent, encoded where a wire format was asked for.
///   down: the parent's finished chunk arrives in place, once the sum that I sent has left; send to
///         the children.
///
/// `window` messages are under way in each line at most.
template <class A>
class Flow {
 public:
  /// `data`: the whole range. `A` matters only for sums; a gather moves bytes.
  /// `window`: messages under way in each line; 0: as the options say. `up`: how sums of floats go up.
  Flow(State& state, A* data, const Partition& partition, int tag, bool reduce, bool gather,
       int window = 0, const WireEncoding& up = {})
      : s_(state),
        data_(data),
        tag_(tag),
        reduce_(reduce),
        gather_(gather),
        window_(std::max(1, window > 0 ? window : state.options.chunks_in_flight)),
        up_(up),
        work_(state.workspaces.take()),
        kept_(state.route(partition, chunk_of(state, window_))),
        route_(*kept_),
        peers_(work_->peers),
        waiting_for_(work_->waiting_for),
        sources_(work_->sources) {
    work_->flight.count_in(state.traffic);
    work_->flight.emulate(state.options.emulated, state.rank);
    peers_.resize(route_.peers().size());
    waiting_for_.resize(route_.chunks().size());
    sources_.resize(static_cast<std::size_t>(route_.edge_count()));
    std::int64_t slots = 0;
    for (std::size_t p = 0; p < peers_.size(); ++p) {
      const Route::Peer& lines = route_.peers()[p];
      PeerProgress& peer = peers_[p];
      peer.up_to.restart(lines.up_to);
      peer.down_to.restart(lines.down_to);
      peer.up_from.restart(lines.up_from);
      peer.down_from.restart(lines.down_from);
      if (!reduce_) continue;
      std::int64_t longest = 0;
      for (const auto& m : lines.up_from.messages) longest = std::max(longest, m.count);
      if (encodes()) longest += landing_slack;
      const auto rows =
          std::min<std::int64_t>(window_, static_cast<std::int64_t>(lines.up_from.messages.size()));
      peer.slot = slots;
      peer.slot_length = longest;
      slots += rows * longest;
    }
    work_->scratch.at_least(static_cast<std::size_t>(slots) * sizeof(A));
  }

  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  ~Flow() {
    if (!work_->flight.empty()) {
      work_->flight.abandon();  // nothing may touch the caller's memory from now on
      s_.in_doubt = true;
      if (s_.broken.empty()) s_.broken = "a transfer was given up while messages were on their way";
      // MPI may still write what arrives late.
      static_cast<void>(work_.release());
      return;
    }
    s_.workspaces.give_back(std::move(work_));
  }

  void run(const Waiting& waiting) {
    start();
    finish(waiting);
  }
  /// Sends what can be sent before anything arrives.
  void start() { begin(); }
  [[nodiscard]] bool done() const { return work_->flight.empty(); }
  /// Goes on with what has arrived.
  void poll(const Waiting& waiting) {
    while (work_->flight.try_some(waiting, [this](std::int64_t token) { complete(token); })) {
    }
  }
  void finish(const Waiting& waiting) {
    while (!done()) {
      work_->flight.wait_some(waiting, [this](std::int64_t token) { complete(token); });
    }
  }

 private:
  enum Kind : std::int64_t { up_sent, up_come, down_sent, down_come };

  static std::int64_t chunk_of(const State& s, int window) {
    const auto size = static_cast<std::int64_t>(sizeof(A));
    const std::int64_t chunk =
        std::clamp<std::int64_t>(s.options.chunk_bytes / size, 1, s.options.max_count);
    // With many ranks the scratch for everybody's incoming chunks must not grow without bound.
    constexpr std::int64_t most_scratch = std::int64_t{32} * 1024 * 1024;
    const std::int64_t slots = std::int64_t{window} * std::max(1, s.size - 1);
    return std::max<std::int64_t>(1, std::min(chunk, most_scratch / (slots * size)));
  }

  [[nodiscard]] const Route::Peer& lines(int p) const {
    return route_.peers()[static_cast<std::size_t>(p)];
  }
  [[nodiscard]] PeerProgress& peer(int p) { return peers_[static_cast<std::size_t>(p)]; }
  [[nodiscard]] const Route::Chunk& chunk(std::int32_t c) const {
    return route_.chunks()[static_cast<std::size_t>(c)];
  }
  static const Route::Message& message(const Route::Line& line, std::int32_t m) {
    return line.messages[static_cast<std::size_t>(m)];
  }
  static std::span<const std::int32_t> chunks(const Route::Line& line, std::int32_t m) {
    const auto& msg = message(line, m);
    return {line.chunks.data() + msg.first, static_cast<std::size_t>(msg.chunks)};
  }
  [[nodiscard]] std::int64_t token(Kind kind, int p, std::int32_t m) const {
    return (std::int64_t{m} * s_.size + p) * 4 + kind;
  }
  static std::int64_t bytes(const Route::Message& m) {
    return m.count * static_cast<std::int64_t>(sizeof(A));
  }
  [[nodiscard]] std::int64_t up_bytes(const Route::Message& m) const {
    return wire_bytes(up_.format, m.count, sizeof(A));
  }
  [[nodiscard]] bool encodes() const { return up_.format != WireFormat::f32; }

  void begin() {
    const auto n = static_cast<std::int32_t>(route_.chunks().size());
    for (int i = 1; i < s_.size; ++i) {
      const int p = (s_.rank + i) % s_.size;
      if (reduce_) {
        take(p);
      } else {
        for (auto& left : peer(p).down_from.left) left = 0;
        fetch(p);
      }
    }
    for (std::int32_t c = 0; c < n; ++c) {
      waiting_for_[static_cast<std::size_t>(c)] = chunk(c).n_children;
      if (!reduce_) {
        if (chunk(c).parent.peer < 0) finished(c);
      } else if (chunk(c).n_children == 0) {
        summed(c);
      }
    }
  }

  /// One chunk less to wait for: the message may be next.
  static void ready(LineProgress& line, std::int32_t m) {
    --line.left[static_cast<std::size_t>(m)];
  }
  [[nodiscard]] static bool may_start(const LineProgress& line) {
    return line.next < static_cast<std::int32_t>(line.left.size()) &&
           line.left[static_cast<std::size_t>(line.next)] == 0;
  }

  void summed(std::int32_t c) {
    const Route::Edge& parent = chunk(c).parent;
    if (parent.peer < 0) return finished(c);
    ready(peer(parent.peer).up_to, parent.up);
    give(parent.peer);
  }
  void finished(std::int32_t c) {
    if (!gather_) return;
    const auto* child = route_.children(chunk(c));
    for (std::int32_t i = 0; i < chunk(c).n_children; ++i) {
      ready(peer(child[i].peer).down_to, child[i].down);
      offer(child[i].peer);
    }
  }

  void give(int p) { start(peer(p).up_to, lines(p).up_to, p, up_sent, tag_); }
  void offer(int p) { start(peer(p).down_to, lines(p).down_to, p, down_sent, tag_ | down_bit); }
  void start(LineProgress& line, const Route::Line& route, int p, Kind kind, int tag) {
    while (line.under_way < window_ && may_start(line)) {
      const std::int32_t m = line.next++;
      const Route::Message& msg = message(route, m);
      ++line.under_way;
      if constexpr (std::is_same_v<A, float>) {
        if (kind == up_sent && encodes()) encode_in_place(up_, data_, msg.begin, msg.count);
      }
      work_->flight.send(s_.rail(m), data_ + msg.begin,
                         kind == up_sent ? up_bytes(msg) : bytes(msg), p, tag, token(kind, p, m),
                         s_.rail_number(m));
    }
  }
  /// Receives sums into free slots.
  void take(int p) {
    LineProgress& line = peer(p).up_from;
    while (line.under_way < window_ && line.next < static_cast<std::int32_t>(line.left.size())) {
      const std::int32_t m = line.next++;
      ++line.under_way;
      const Route::Message& msg = message(lines(p).up_from, m);
      void* to = slot(p, m);
      if constexpr (std::is_same_v<A, float>) {
        if (encodes()) to = landing(up_.format, slot(p, m), msg.count);
      }
      work_->flight.receive(s_.rail(m), to, up_bytes(msg), p, tag_, token(up_come, p, m));
    }
  }
  void fetch(int p) {
    LineProgress& line = peer(p).down_from;
    while (may_start(line)) {
      const std::int32_t m = line.next++;
      const auto& msg = message(lines(p).down_from, m);
      work_->flight.receive(s_.rail(m), data_ + msg.begin, bytes(msg), p, tag_ | down_bit,
                            token(down_come, p, m));
    }
  }
  [[nodiscard]] A* slot(int p, std::int32_t m) {
    return reinterpret_cast<A*>(work_->scratch.data()) + peer(p).slot +
           (m % window_) * peer(p).slot_length;
  }

  void complete(std::int64_t token) {
    const int p = static_cast<int>((token / 4) % s_.size);
    const auto m = static_cast<std::int32_t>(token / 4 / s_.size);
    switch (static_cast<Kind>(token % 4)) {
      case up_sent:
        --peer(p).up_to.under_way;
        if (gather_) {
          // The memory is free for the finished chunk only now.
          for (const auto c : chunks(lines(p).up_to, m)) {
            ready(peer(p).down_from, chunk(c).parent.down);
          }
          fetch(p);
        }
        give(p);
        break;
      case up_come:
        if constexpr (std::is_same_v<A, float>) {
          if (encodes()) {
            decode_in_place(up_.format, slot(p, m), message(lines(p).up_from, m).count);
          }
        }
        for (const auto c : chunks(lines(p).up_from, m)) arrived(p, m, c);
        break;
      case down_sent:
        --peer(p).down_to.under_way;
        offer(p);
        break;
      case down_come:
        for (const auto c : chunks(lines(p).down_from, m)) finished(c);
        break;
    }
  }

  void arrived(int p, std::int32_t m, std::int32_t c) {
    const Route::Chunk& ch = chunk(c);
    const auto* child = route_.children(ch);
    std::int32_t i = 0;
    while (child[i].peer != p) ++i;
    sources_[static_cast<std::size_t>(ch.children + i)] =
        slot(p, m) + (ch.begin - message(lines(p).up_from, m).begin);
    if (--waiting_for_[static_cast<std::size_t>(c)] > 0) return;
    add(ch);
    summed(c);
    for (i = 0; i < ch.n_children; ++i) consumed(child[i].peer, child[i].up);
  }

  void add(const Route::Chunk& ch) {
    const auto* child = route_.children(ch);
    terms_.clear();
    const A* mine = data_ + ch.begin;
    for (std::int32_t i = 0; i < ch.n_children; ++i) {
      if (mine != nullptr && child[i].peer > s_.rank)
        terms_.push_back(std::exchange(mine, nullptr));
      terms_.push_back(static_cast<const A*>(sources_[static_cast<std::size_t>(ch.children + i)]));
    }
    if (mine != nullptr) terms_.push_back(mine);
    if constexpr (Reducible<A>) {  // others are only gathered
      sum_in_order(data_ + ch.begin, std::span<const A* const>(terms_), ch.count);
    }
  }

  /// A chunk of an incoming message has been added; slots are freed in the order of messages.
  void consumed(int p, std::int32_t m) {
    LineProgress& line = peer(p).up_from;
    ready(line, m);
    std::int32_t oldest = line.next - line.under_way;
    while (line.under_way > 0 && line.left[static_cast<std::size_t>(oldest)] == 0) {
      ++oldest;
      --line.under_way;
    }
    take(p);
  }

  static constexpr int down_bit = 0x4000;

  State& s_;
  A* data_;
  int tag_;
  bool reduce_;
  bool gather_;
  int window_;
  WireEncoding up_;
  std::unique_ptr<Workspace> work_;
  std::shared_ptr<const Route> kept_;
  const Route& route_;
  std::vector<PeerProgress>& peers_;
  std::vector<std::int32_t>& waiting_for_;
  std::vector<const void*>& sources_;
  std::vector<const A*> terms_;
};

}  // namespace krama::comm::detail
