// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/program.hpp>

namespace krama::plan {

/// Places in a run of near memory, the lowest that is free. The same requests in the same order give
/// the same places, so a planner and whoever follows it agree without telling each other.
class Slots {
 public:
  explicit Slots(std::int64_t bytes = 0) : bytes_(bytes) {}

  /// Offset of `bytes` free bytes; -1 where no gap is large enough.
  std::int64_t take(std::int64_t bytes);
  void give_back(std::int64_t offset) { taken_.erase(offset); }
  void clear() { taken_.clear(); }

 private:
  std::int64_t bytes_;
  std::map<std::int64_t, std::int64_t> taken_;
};

/// What each block brings into the window, in bytes.
struct WindowSizes {
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> gradients;
  /// The blocks that add to some gradient that block b adds to as well (tied parameters).
  std::vector<std::vector<int>> rivals;

  /// The least with which a step works: the weights and gradients of one block at a time.
  [[nodiscard]] std::int64_t smallest() const;
  [[nodiscard]] std::int64_t all() const;
};

namespace detail {

/// Walks a program and brings what its blocks need into a window, as early as there is room. An item
/// is a block's weights or its gradients.
class WindowWalk {
 public:
  WindowWalk(const Program& program, const WindowSizes& sizes, std::int64_t bytes,
             const std::vector<int>& last_block);
  [[nodiscard]] Program result() && { return std::move(out_); }

 private:
  static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
  struct Item {
    std::vector<std::size_t> uses;  ///< places in the program
    std::size_t next = 0;           ///< the first of them that is not done
    std::int64_t place = -1;        ///< in the window; -1: not there
    bool waited = false;
    [[nodiscard]] std::size_t next_use() const { return next < uses.size() ? uses[next] : never; }
  };

  /// The items that an instruction works on.
  [[nodiscard]] std::vector<std::size_t> needs(std::size_t p) const;
  [[nodiscard]] std::int64_t bytes_of(std::size_t item) const {
    return item < blocks_ ? sizes_->weights[item] : sizes_->gradients[item - blocks_];
  }
  [[nodiscard]] int block_of(std::size_t item) const {
    return static_cast<int>(item < blocks_ ? item : item - blocks_);
  }

  void visit(std::size_t p);

  /// What will be used is brought in that order, into room that is free or held by what is used later
  /// (the aggressive rule of Cao, Felten, Karlin and Li 1995), until something finds no room.
  void bring_ahead(std::size_t from);
  /// Gradients of block b that are brought now would miss what is added to them before `q`.
  [[nodiscard]] bool added_to_before(std::size_t b, std::size_t q) const;
  [[nodiscard]] bool pinned(std::size_t item) const {
    return std::find(pinned_.begin(), pinned_.end(), item) != pinned_.end();
  }

  /// Asks for an item that is used at `q` together with `with`; what is used later makes room.
  bool bring(std::size_t item, std::size_t q, const std::vector<std::size_t>& with);
  /// The link does things in order, so what it brings may follow at once.
  void leave(std::size_t item);
  /// All that adds to bucket k has left near memory.
  void await_sends(int k);

  const Program* program_;
  const WindowSizes* sizes_;
  const std::vector<int>* last_block_;
  std::size_t blocks_;
  Slots slots_;
  std::vector<Item> items_;
  std::vector<std::size_t> pinned_;  ///< what the instruction at hand works on
  std::vector<int> sent_;            ///< blocks, in the order in which their gradients left
  std::size_t arrived_ = 0;          ///< so many of them were waited for
  int micro_ = -1;
  Program out_;
};

}  // namespace detail

/// The same step with weights and gradients in far memory: every block's weights are fetched into a
/// window of `bytes` bytes before they are used, beside earlier blocks' work, and gradients leave it
/// after each backward. Sums of bucket k begin when what block `last_block[k]` and those behind it
/// added is in far memory. The window holds nothing when the program begins, and nothing when it ends.
/// Gives the same bits as the plain step.
/// \pre bytes >= sizes.smallest()
Program with_window(const Program& program, const WindowSizes& sizes, std::int64_t bytes,
                    const std::vector<int>& last_block);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE std::int64_t Slots::take(std::int64_t bytes) {
  std::int64_t at = 0;
  for (const auto& [offset, size] : taken_) {
    if (at + bytes <= offset) break;
    at = offset + size;
  }
  if (at + bytes > bytes_) return -1;
  taken_.emplace(at, bytes);
  return at;
}

KRAMA_INLINE std::int64_t WindowSizes::smallest() const {
  std::int64_t most = 0;
  for (std::size_t b = 0; b < weights.size(); ++b) {
    most = std::max(most, weights[b] + gradients[b]);
  }
  return most;
}

KRAMA_INLINE std::int64_t WindowSizes::all() const {
  std::int64_t sum = 0;
  for (std::size_t b = 0; b < weights.size(); ++b) sum += weights[b] + gradients[b];
  return sum;
}

}  // namespace krama::plan

namespace krama::plan::detail {

KRAMA_INLINE WindowWalk::WindowWalk(const Program& program, const WindowSizes& sizes,
                                    std::int64_t bytes, const std::vector<int>& last_block)
    : program_(&program),
      sizes_(&sizes),
      last_block_(&last_block),
      blocks_(sizes.weights.size()),
      slots_(bytes),
      items_(2 * blocks_) {
  for (std::size_t p = 0; p < program.size(); ++p) {
    for (const auto item : needs(p)) items_[item].uses.push_back(p);
  }
  bring_ahead(0);
  for (std::size_t p = 0; p < program.size(); ++p) visit(p);
}

KRAMA_INLINE std::vector<std::size_t> WindowWalk::needs(std::size_t p) const {
  const Instr& i = (*program_)[p];
  std::vector<std::size_t> all;
  const bool backward = i.op == Op::backward;
  if (!backward && i.op != Op::forward && i.op != Op::recompute) return all;
  const auto b = static_cast<std::size_t>(i.index);
  KRAMA_EXPECTS(b < blocks_, "with_window: block {} has no entry among {}", i.index, blocks_);
  if (bytes_of(b) > 0) all.push_back(b);
  if (backward && bytes_of(blocks_ + b) > 0) all.push_back(blocks_ + b);
  return all;
}

KRAMA_INLINE void WindowWalk::visit(std::size_t p) {
  const Instr& i = (*program_)[p];
  if (i.op == Op::reduce) await_sends(i.index);
  const auto mine = needs(p);
  if (mine.empty()) {
    out_.push_back(i);
    return;
  }
  micro_ = i.micro;
  const auto missing = [&](std::size_t item) { return items_[item].place < 0; };
  for (const auto item : mine) {
    if (missing(item)) bring(item, p, mine);
  }
  // Enough room, but in pieces: then everything leaves first.
  if (std::any_of(mine.begin(), mine.end(), missing)) {
    for (std::size_t item = 0; item < items_.size(); ++item) leave(item);
    for (const auto item : mine) bring(item, p, mine);
  }
  bool waited = true;
  for (const auto item : mine) {
    KRAMA_EXPECTS(!missing(item), "with_window: block {} does not fit", i.index);
    waited = waited && std::exchange(items_[item].waited, true);
  }
  if (!waited) out_.push_back({Op::await_fetch, i.index, micro_});
  for (const auto item : mine) ++items_[item].next;
  // What comes is brought beside this one's work, not into its memory.
  pinned_ = mine;
  bring_ahead(p + 1);
  pinned_.clear();
  out_.push_back(i);
  for (const auto item : mine) {
    if (item >= blocks_ || items_[item].next_use() == never) leave(item);
  }
}

KRAMA_INLINE void WindowWalk::bring_ahead(std::size_t from) {
  for (std::size_t q = from; q < program_->size(); ++q) {
    const auto wanted = needs(q);
    for (const auto item : wanted) {
      if (items_[item].place >= 0) {
        // Gradients are there for one backward, then they leave.
        if (item >= blocks_ && (pinned(item) || items_[item].next_use() != q)) return;
        continue;
      }
      if (item >= blocks_ && added_to_before(item - blocks_, q)) return;
      if (!bring(item, q, wanted)) return;
    }
  }
}

KRAMA_INLINE bool WindowWalk::added_to_before(std::size_t b, std::size_t q) const {
  if (items_[blocks_ + b].next_use() < q || pinned(blocks_ + b)) return true;
  return std::any_of(sizes_->rivals[b].begin(), sizes_->rivals[b].end(), [&](int r) {
    const auto item = blocks_ + static_cast<std::size_t>(r);
    return items_[item].next_use() < q || pinned(item);
  });
}

KRAMA_INLINE bool WindowWalk::bring(std::size_t item, std::size_t q,
                                    const std::vector<std::size_t>& with) {
  std::int64_t place = slots_.take(bytes_of(item));
  while (place < 0) {
    std::size_t latest = items_.size();
    for (std::size_t other = 0; other < items_.size(); ++other) {
      if (items_[other].place < 0 || items_[other].next_use() <= q || pinned(other) ||
          std::find(with.begin(), with.end(), other) != with.end()) {
        continue;
      }
      if (latest == items_.size() || items_[other].next_use() > items_[latest].next_use()) {
        latest = other;
      }
    }
    if (latest == items_.size()) return false;
    leave(latest);
    place = slots_.take(bytes_of(item));
  }
  items_[item].place = place;
  items_[item].waited = false;
  out_.push_back({item < blocks_ ? Op::fetch_weights : Op::fetch_grads, block_of(item), micro_});
  return true;
}

KRAMA_INLINE void WindowWalk::leave(std::size_t item) {
  if (items_[item].place < 0) return;
  slots_.give_back(std::exchange(items_[item].place, -1));
  out_.push_back({item < blocks_ ? Op::drop_weights : Op::send_grads, block_of(item), micro_});
  if (item >= blocks_) sent_.push_back(block_of(item));
}

KRAMA_INLINE void WindowWalk::await_sends(int k) {
  KRAMA_EXPECTS(k >= 0 && k < static_cast<int>(last_block_->size()),
                "with_window: bucket {} has no entry among {}", k, last_block_->size());
  for (std::size_t i = sent_.size(); i > arrived_; --i) {
    if (sent_[i - 1] < (*last_block_)[static_cast<std::size_t>(k)]) continue;
    out_.push_back({Op::await_send, sent_[i - 1], micro_});
    arrived_ = i;
    return;
  }
}

}  // namespace krama::plan::detail

namespace krama::plan {

KRAMA_INLINE Program with_window(const Program& program, const WindowSizes& sizes,
                                 std::int64_t bytes, const std::vector<int>& last_block) {
  KRAMA_EXPECTS(bytes >= sizes.smallest(), "with_window: {} bytes are needed, {} are available",
                sizes.smallest(), bytes);
  return detail::WindowWalk(program, sizes, bytes, last_block).result();
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
