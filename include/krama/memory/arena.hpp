// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <krama/core/error.hpp>
#include <krama/tensor/tensor.hpp>

namespace krama {

/// One allocation in which a plan has given everything its place. The budget is checked before the
/// machine is asked.
template <MemorySpace M>
class Arena {
 public:
  Arena() = default;

  /// \throws OutOfMemory when `bytes` exceed `budget` (0: no budget) or cannot be had.
  template <ExecutionSpace E>
  Arena(const E& exec, const std::string& label, std::int64_t bytes, std::int64_t budget = 0) {
    check(label, bytes, budget);
    memory_ = Tensor<std::byte, 1, M>(exec, label, {bytes});
  }

  /// Whether a budget allows it, without taking anything.
  /// \throws OutOfMemory when `bytes` exceed `budget` (0: no budget)
  static void check(const std::string& label, std::int64_t bytes, std::int64_t budget) {
    if (budget <= 0 || bytes <= budget) return;
    throw OutOfMemory(label, bytes, M::name(),
                      fmt::format("the budget is {} bytes; use smaller micro-batches, recompute or "
                                  "swap blocks, or raise the budget",
                                  budget));
  }

  [[nodiscard]] std::byte* at(std::int64_t offset) const { return memory_.data() + offset; }
  [[nodiscard]] std::int64_t bytes() const { return memory_.size(); }

 private:
  Tensor<std::byte, 1, M> memory_;
};

}  // namespace krama
