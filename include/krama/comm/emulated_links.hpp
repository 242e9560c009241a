// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include <krama/comm/links.hpp>
#include <krama/core/random.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// Links that do not exist, for tests and benches on one machine: a message is held back by its
/// sender until it would have arrived, asleep, so that no core is taken from those who compute.
/// Each rank has one port for each class of links and rail; messages of a port follow one another.
///
/// All communicators of a rank that are given the same object share its ports, as they would share a
/// network card. One thread uses it.
class EmulatedLinks {
 public:
  using Clock = std::chrono::steady_clock;

  struct Wire {
    Link link;
    int port = 0;  ///< wires of a rank with the same number share their bandwidth
  };

  /// `wire_of(from, to)`: what leads from one rank to another. `jitter`: each message's latency is longer by
  /// up to this part of it, drawn from `seed`.
  explicit EmulatedLinks(std::function<Wire(int from, int to)> wire_of, double jitter = 0,
                         std::uint64_t seed = 0)
      : wire_of_(std::move(wire_of)), jitter_(jitter), seed_(seed) {}

  /// When a message of `bytes` that is sent now arrives; the port is taken until its last byte has
  /// left. Messages of one pair and rail arrive in the order sent.
  Clock::time_point arrival(int from, int to, int rail, std::int64_t bytes);

 private:
  static Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  std::function<Wire(int, int)> wire_of_;
  double jitter_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  std::map<std::pair<int, int>, Clock::time_point> port_free_;
  std::map<std::tuple<int, int, int>, Clock::time_point> last_arrival_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE auto EmulatedLinks::arrival(int from, int to, int rail, std::int64_t bytes)
    -> Clock::time_point {
  const auto [link, port] = wire_of_(from, to);
  auto& free = port_free_[{port, rail}];
  free = std::max(free, Clock::now()) + duration(link.transfer_seconds(bytes));
  const double drawn = jitter_ > 0 ? jitter_ * uniform(RandomKey{seed_, 0, 0}, drawn_++) : 0;
  auto& last = last_arrival_[{from, to, rail}];
  last = std::max(last, free + duration(link.latency_seconds * (1 + drawn)));
  return last;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
