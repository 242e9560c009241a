// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <krama/memory/swap_link.hpp>
#include <krama/plan/program.hpp>
#include <krama/program/step_values.hpp>

namespace krama {

/// Does a program's swap instructions: knows which bytes belong to which block, and what was asked of
/// the link. A block that is not swapped has nothing to do here.
template <Device D, Scalar T>
class SwapLane {
 public:
  /// \throws TierError when the far tier has no room for what this plan swaps
  SwapLane(const exec_of<D>& exec, const plan::StepMemory& memory, const SwapOptions& options)
      : moves_(memory.moves), tickets_(moves_.size(), 0) {
    std::int64_t bytes = 0;
    for (const auto& block : moves_) {
      far_.push_back(bytes);
      for (const auto& m : block) bytes += paged(m.bytes);
    }
    if (bytes > 0) link_ = std::make_unique<SwapLink<D>>(exec, bytes, options);
  }

  void execute(const plan::Instr& i, StepValues<D, T>& values) {
    const auto b = static_cast<std::size_t>(i.index);
    if (!link_ || moves_[b].empty()) return;
    switch (i.op) {
      case plan::Op::swap_out:
        tickets_[b] = link_->out(pieces(b, values, true));
        break;
      case plan::Op::swap_in:
        tickets_[b] = link_->in(pieces(b, values, false));
        break;
      case plan::Op::await_out:
        link_->wait(tickets_[b]);
        break;
      case plan::Op::await_in:
        link_->wait(tickets_[b]);
        values.came_back(i.index);
        break;
      default:
        break;
    }
  }
  /// After a step, however it ended: nothing moves any more.
  void settle() {
    if (link_) link_->settle();
  }
  [[nodiscard]] std::int64_t moved() const { return link_ ? link_->moved() : 0; }

 private:
  /// Every piece begins at a page of the far tier.
  static std::int64_t paged(std::int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  [[nodiscard]] std::vector<SwapPiece> pieces(std::size_t b, const StepValues<D, T>& values,
                                              bool out) const {
    std::vector<SwapPiece> all;
    std::int64_t far = far_[b];
    for (const auto& m : moves_[b]) {
      all.push_back({values.memory_at(out ? m.from : m.to), far, m.bytes});
      far += paged(m.bytes);
    }
    return all;
  }

  std::vector<std::vector<plan::Move>> moves_;
  std::vector<std::int64_t> far_;      ///< where each block's bytes lie in the far tier
  std::vector<std::int64_t> tickets_;  ///< of each block's last transfer
  std::unique_ptr<SwapLink<D>> link_;
};

}  // namespace krama
