// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/program.hpp>

namespace krama {

/// When one instruction ran on this rank, in microseconds since the recorder's start.
struct TraceEvent {
  plan::Instr instr;
  std::uint32_t step = 0;
  double begin_us = 0;
  double end_us = 0;
};

/// Times of instructions, while it is on. Off, it costs one comparison an instruction.
class TraceRecorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Records the next `limit` events; time 0 is now.
  void start(std::size_t limit);
  [[nodiscard]] bool on() const { return events_.size() < limit_; }
  [[nodiscard]] double now_us() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - origin_).count();
  }
  void add(const plan::Instr& instr, std::uint32_t step, double begin_us) {
    events_.push_back({instr, step, begin_us, now_us()});
  }
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  /// Stops, and hands over what there is.
  [[nodiscard]] std::vector<TraceEvent> take();

 private:
  Clock::time_point origin_ = Clock::now();
  std::size_t limit_ = 0;
  std::vector<TraceEvent> events_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE void TraceRecorder::start(std::size_t limit) {
  limit_ = limit;
  origin_ = Clock::now();
  events_.reserve(limit);
}

KRAMA_INLINE std::vector<TraceEvent> TraceRecorder::take() {
  limit_ = 0;
  return std::exchange(events_, {});
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
