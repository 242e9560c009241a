// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/atomic_file.hpp>
#include <krama/io/detail/fixed_number.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace krama::io {

/// Where an event stands in a trace: a process (Krama: a rank) and a thread of it (a lane).
struct TraceLane {
  std::int64_t pid = 0;
  std::int64_t tid = 0;
};

/// Writes a trace that Perfetto and chrome://tracing open (the "Trace Event Format", JSON object
/// form). Times are in microseconds from any common start. Events are streamed in the order of the
/// calls, which viewers do not care about; the file appears as a whole with `commit` (AtomicFile).
class TraceWriter {
 public:
  explicit TraceWriter(const std::filesystem::path& path, const detail::SysCalls& calls = {})
      : file_(path, 0, calls) {
    file_.write(std::string_view("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["));
  }

  /// Names a process; processes are shown in the order of `sort_index`.
  void process(std::int64_t pid, std::string_view name, std::int64_t sort_index);
  /// Names a thread of a process.
  void thread(TraceLane lane, std::string_view name, std::int64_t sort_index);

  /// Something that took from `start` to `start + duration`. `args`: an object that the viewer
  /// shows.
  void complete(TraceLane lane, std::string_view name, std::string_view category, double start,
                double duration, const nlohmann::json& args = nullptr);
  /// A moment.
  void instant(TraceLane lane, std::string_view name, std::string_view category, double time) {
    event("i", lane, name, category, time, ",\"s\":\"t\"");
  }
  /// The tail of an arrow, inside a complete event of the lane (a send); `id` pairs it with its
  /// head.
  void flow_start(TraceLane lane, std::string_view name, std::string_view category, double time,
                  std::uint64_t id) {
    event("s", lane, name, category, time, ",\"id\":" + std::to_string(id));
  }
  /// The head of an arrow (a receive), bound to the event that encloses it.
  void flow_end(TraceLane lane, std::string_view name, std::string_view category, double time,
                std::uint64_t id) {
    event("f", lane, name, category, time, ",\"bp\":\"e\",\"id\":" + std::to_string(id));
  }

  /// Ends the list and puts the file in place.
  void commit();

 private:
  static std::string dump(const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  static std::string text(std::string_view value) { return dump(nlohmann::json(value)); }

  /// Nanosecond resolution.
  static std::string number(double value);

  static std::string place(TraceLane lane) {
    return ",\"pid\":" + std::to_string(lane.pid) + ",\"tid\":" + std::to_string(lane.tid);
  }

  void metadata(std::string_view what, TraceLane lane, std::string_view key,
                const std::string& value);
  void event(std::string_view phase, TraceLane lane, std::string_view name,
             std::string_view category, double time, const std::string& rest);
  void append(const std::string& json);

  AtomicFile file_;
  bool first_ = true;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE void TraceWriter::process(std::int64_t pid, std::string_view name,
                                       std::int64_t sort_index) {
  metadata("process_name", {.pid = pid}, "name", text(name));
  metadata("process_sort_index", {.pid = pid}, "sort_index", std::to_string(sort_index));
}

KRAMA_INLINE void TraceWriter::thread(TraceLane lane, std::string_view name,
                                      std::int64_t sort_index) {
  metadata("thread_name", lane, "name", text(name));
  metadata("thread_sort_index", lane, "sort_index", std::to_string(sort_index));
}

KRAMA_INLINE void TraceWriter::complete(TraceLane lane, std::string_view name,
                                        std::string_view category, double start, double duration,
                                        const nlohmann::json& args) {
  if (!(duration >= 0.0)) throw std::invalid_argument("TraceWriter: negative duration");
  event("X", lane, name, category, start,
        ",\"dur\":" + number(duration) + (args.is_null() ? "" : ",\"args\":" + dump(args)));
}

KRAMA_INLINE void TraceWriter::commit() {
  file_.write(std::string_view("\n]}\n"));
  file_.commit();
}

KRAMA_INLINE std::string TraceWriter::number(double value) {
  // 1e15 us are 32 years: more is a mistake in the caller's clock.
  if (!(std::abs(value) < 1e15)) throw std::invalid_argument("TraceWriter: impossible time");
  return detail::fixed_number(value, 3);
}

KRAMA_INLINE void TraceWriter::metadata(std::string_view what, TraceLane lane, std::string_view key,
                                        const std::string& value) {
  append("{\"ph\":\"M\",\"name\":\"" + std::string(what) + '"' + place(lane) + ",\"args\":{\"" +
         std::string(key) + "\":" + value + "}}");
}

KRAMA_INLINE void TraceWriter::event(std::string_view phase, TraceLane lane, std::string_view name,
                                     std::string_view category, double time,
                                     const std::string& rest) {
  append("{\"ph\":\"" + std::string(phase) + "\",\"name\":" + text(name) +
         ",\"cat\":" + text(category) + place(lane) + ",\"ts\":" + number(time) + rest + '}');
}

KRAMA_INLINE void TraceWriter::append(const std::string& json) {
  file_.write(std::string_view(first_ ? "\n" : ",\n"));
  file_.write(std::string_view(json));
  first_ = false;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
