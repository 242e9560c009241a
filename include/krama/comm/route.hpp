// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/comm/partition.hpp>
#include <krama/definitions.hpp>

namespace krama::comm {

/// What one rank sends and receives when the pieces of a partition travel along a form's trees:
/// pure, the same on both ends of every pair, known before the first message.
///
/// Pieces are cut into chunks. Every pair of ranks that are child and parent in some tree has two
/// lines: one up (partial sums) and one down (finished chunks). A line's messages have one order,
/// so receivers need no tags: by chunk number, then stage (down: the stages reversed), then the
/// place in memory. The sum that is first in this order, over all ranks, waits only for messages
/// before which nothing unfinished stands in any line, so nothing can deadlock, whatever the
/// windows. Neighbouring chunks of one stage share a message.
class Route {
 public:
  struct Message {
    std::int64_t begin = 0;  ///< elements
    std::int64_t count = 0;
    std::int32_t first = 0;  ///< in the line's `chunks`
    std::int32_t chunks = 0;
  };
  struct Line {
    std::vector<std::int32_t> chunks;  ///< indices into `chunks()`, in the order sent
    std::vector<Message> messages;
  };
  /// One peer in a chunk's tree, and which message of the pair's lines holds the chunk.
  struct Edge {
    int peer = -1;
    std::int32_t up = -1;
    std::int32_t down = -1;
  };
  struct Chunk {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    Edge parent;                ///< peer -1: this rank owns the chunk
    std::int32_t children = 0;  ///< first of its edges in `children()`
    std::int32_t n_children = 0;
  };
  struct Peer {
    Line up_to, up_from, down_to, down_from;
  };

  /// Of rank `me`; chunks and messages of at most `chunk` elements.
  Route(const Form& form, const Partition& partition, int me, std::int64_t chunk);

  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  /// Edges to the children of `c`, in rank order.
  [[nodiscard]] const Edge* children(const Chunk& c) const { return children_.data() + c.children; }
  [[nodiscard]] std::int64_t edge_count() const {
    return static_cast<std::int64_t>(children_.size());
  }
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }

 private:
  struct Stage {
    int peer;
    std::int64_t k;
    int level;
    std::int64_t begin;
    std::int32_t chunk;
    std::int32_t edge;  ///< in children_; -1: the chunk's parent
  };

  void lay(std::vector<Stage>& all, Line Peer::* line, std::int32_t Edge::* message,
           std::int64_t most);

  std::vector<Chunk> chunks_;
  std::vector<Edge> children_;
  std::vector<Peer> peers_;
};

}  // namespace krama::comm

#if KRAMA_DEFINITIONS

namespace krama::comm {

KRAMA_INLINE Route::Route(const Form& form, const Partition& partition, int me, std::int64_t chunk)
    : peers_(static_cast<std::size_t>(partition.parts())) {
  const int n = partition.parts();
  std::vector<Stage> up_to, up_from, down_to, down_from;
  for (int owner = 0; owner < n; ++owner) {
    const std::int64_t count = partition.count(owner);
    for (std::int64_t k = 0; k * chunk < count; ++k) {
      const ReductionTree tree = form.tree(owner, k, n);
      const auto at = [](int r) { return static_cast<std::size_t>(r); };
      const auto id = static_cast<std::int32_t>(chunks_.size());
      Chunk c;
      c.begin = partition.begin(owner) + k * chunk;
      c.count = std::min(chunk, count - k * chunk);
      c.children = static_cast<std::int32_t>(children_.size());
      c.parent.peer = tree.parent[at(me)];
      if (c.parent.peer >= 0) {
        up_to.push_back({c.parent.peer, k, tree.stage[at(me)], c.begin, id, -1});
        down_from.push_back({c.parent.peer, k, -tree.stage[at(me)], c.begin, id, -1});
      }
      for (int r = 0; r < n; ++r) {
        if (tree.parent[at(r)] != me) continue;
        const auto edge = static_cast<std::int32_t>(children_.size());
        up_from.push_back({r, k, tree.stage[at(r)], c.begin, id, edge});
        down_to.push_back({r, k, -tree.stage[at(r)], c.begin, id, edge});
        children_.push_back({r, -1, -1});
      }
      c.n_children = static_cast<std::int32_t>(children_.size()) - c.children;
      chunks_.push_back(c);
    }
  }
  lay(up_to, &Peer::up_to, &Edge::up, chunk);
  lay(up_from, &Peer::up_from, &Edge::up, chunk);
  lay(down_to, &Peer::down_to, &Edge::down, chunk);
  lay(down_from, &Peer::down_from, &Edge::down, chunk);
}

KRAMA_INLINE void Route::lay(std::vector<Stage>& all, Line Peer::* line,
                             std::int32_t Edge::* message, std::int64_t most) {
  std::sort(all.begin(), all.end(), [](const Stage& a, const Stage& b) {
    return std::tie(a.peer, a.k, a.level, a.begin) < std::tie(b.peer, b.k, b.level, b.begin);
  });
  const Stage* before = nullptr;
  for (const Stage& s : all) {
    Line& l = peers_[static_cast<std::size_t>(s.peer)].*line;
    const Chunk& c = chunks_[static_cast<std::size_t>(s.chunk)];
    const bool joins = before != nullptr && before->peer == s.peer && before->k == s.k &&
                       before->level == s.level &&
                       l.messages.back().begin + l.messages.back().count == c.begin &&
                       l.messages.back().count + c.count <= most;
    if (!joins) {
      l.messages.push_back({c.begin, 0, static_cast<std::int32_t>(l.chunks.size()), 0});
    }
    l.messages.back().count += c.count;
    l.messages.back().chunks += 1;
    l.chunks.push_back(s.chunk);
    Edge& edge = s.edge < 0 ? chunks_[static_cast<std::size_t>(s.chunk)].parent
                            : children_[static_cast<std::size_t>(s.edge)];
    edge.*message = static_cast<std::int32_t>(l.messages.size()) - 1;
    before = &s;
  }
}

}  // namespace krama::comm

#endif  // KRAMA_DEFINITIONS
