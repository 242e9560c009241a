// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <memory>

namespace krama {

/// A collective that has been started: its buffer belongs to the communicator until `wait` returns.
/// Nothing moves on its own: progress is made by `poll` and `wait`, and by those of the other ranks.
/// All ranks start the same operations in the same order; they may wait in any. One that
/// is destroyed before its end waits for it, unless an exception is on its way: its communicator is
/// broken then.
class PendingOperation {
 public:
  PendingOperation() = default;
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;
  virtual ~PendingOperation() = default;

  /// Does what can be done without waiting.
  virtual void poll() = 0;
  /// Returns when the operation is complete, as it would have been without a start of its own.
  virtual void wait() = 0;
};

/// Null: complete already.
using Pending = std::unique_ptr<PendingOperation>;

}  // namespace krama
