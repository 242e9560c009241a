// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace krama {

/// The other ranks as a layer sees them: small arrays of doubles on the host, nothing of any
/// transport. Who runs the layer gives it one through the context; none means one rank. Every rank
/// makes the same calls in the same order, with the same lengths and names; a call waits for all.
class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  [[nodiscard]] virtual int size() const = 0;

  /// The ranks' `mine`, one behind the other in rank order, the same bytes on every rank. What a
  /// caller makes of them on every rank has the same bits only if it rounds the same everywhere:
  /// additions and explicit fma, no product that a compiler may fuse with an addition.
  virtual std::vector<double> gather(std::span<const double> mine, std::string_view what) = 0;

  /// values = ((r0 + r1) + r2) + …, the same bits on every rank.
  void sum(std::span<double> values, std::string_view what) {
    const auto all = gather(values, what);
    for (std::size_t i = 0; i < values.size(); ++i) {
      double total = all[i];
      for (std::size_t at = i + values.size(); at < all.size(); at += values.size()) {
        total += all[at];
      }
      values[i] = total;
    }
  }
};

}  // namespace krama
