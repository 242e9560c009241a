// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/definitions.hpp>
#include <krama/io/jsonl.hpp>
#include <krama/io/timeline_svg.hpp>
#include <krama/io/trace_json.hpp>
#include <krama/program/trace.hpp>
#include <krama/train/together.hpp>

namespace krama::train {

/// What a run leaves behind: metrics.jsonl (a line a step), trace.json (for Perfetto),
/// timeline.svg (a picture of the trace's last step), and checkpoint.safetensors. Only rank 0 writes.
class RunFolder {
 public:
  /// Makes the folder; a new run replaces the metrics of an old one, a resumed run continues them.
  /// Collective over comm.
  template <Communicator C>
  RunFolder(C& comm, std::filesystem::path folder, bool resume) : folder_(std::move(folder)) {
    on_rank_zero(comm, "make run folder", [&] {
      std::error_code error;
      std::filesystem::create_directories(folder_, error);
      KRAMA_EXPECTS(!error, "run folder {} cannot be made: {}", folder_.string(), error.message());
      const auto metrics = folder_ / "metrics.jsonl";
      if (!resume) std::filesystem::remove(metrics, error);
      metrics_.emplace(metrics);
    });
  }

  [[nodiscard]] std::filesystem::path checkpoint() const {
    return folder_ / "checkpoint.safetensors";
  }

  /// Appends a line to the metrics; on other ranks than 0, nothing.
  void metric(const nlohmann::json& line) {
    if (metrics_) metrics_->write(line);
  }

  /// Writes every rank's recorded instructions: a process a rank, a thread a lane; and draws a step.
  /// Times count from each recorder's start, so start them after a barrier. Collective over comm.
  template <Communicator C>
  void write_trace(C& comm, const TraceRecorder& mine) {
    std::string text;
    for (const auto& e : mine.events()) {
      text += fmt::format("{} {} {} {} {} {}\n", static_cast<int>(e.instr.op), e.instr.index,
                          e.instr.micro, e.step, e.begin_us, e.end_us);
    }
    const auto all = comm.gather_text(text, "trace");
    on_rank_zero(comm, "write trace", [&] {
      std::vector<std::vector<TraceEvent>> ranks;
      for (std::size_t r = 0; r < all.size(); ++r) ranks.push_back(events_of(r, all[r]));
      io::TraceWriter file(folder_ / "trace.json");
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        write_rank(file, static_cast<int>(r), ranks[r]);
      }
      file.commit();
      draw(ranks, folder_ / "timeline.svg");
    });
  }

 private:
  static constexpr std::array lanes = {plan::Lane::compute, plan::Lane::comm, plan::Lane::data,
                                       plan::Lane::link};

  static std::vector<TraceEvent> events_of(std::size_t rank, const std::string& text);
  static std::string name_of(const plan::Instr& i);

  static void write_rank(io::TraceWriter& file, int rank, const std::vector<TraceEvent>& events);

  /// The last step of the trace, which is the least disturbed by starting up.
  static void draw(const std::vector<std::vector<TraceEvent>>& ranks,
                   const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::optional<io::JsonLines> metrics_;
};

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE std::vector<TraceEvent> RunFolder::events_of(std::size_t rank,
                                                          const std::string& text) {
  std::vector<TraceEvent> events;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    int op = 0;
    unsigned step = 0;
    TraceEvent e;
    const int got = std::sscanf(text.substr(at, end - at).c_str(), "%d %d %d %u %lf %lf", &op,
                                &e.instr.index, &e.instr.micro, &step, &e.begin_us, &e.end_us);
    KRAMA_EXPECTS(got == 6, "trace of rank {}: line \"{}\" is damaged", rank,
                  text.substr(at, end - at));
    e.instr.op = static_cast<plan::Op>(op);
    e.step = step;
    events.push_back(e);
    at = end + 1;
  }
  return events;
}

KRAMA_INLINE std::string RunFolder::name_of(const plan::Instr& i) {
  return i.index >= 0 ? fmt::format("{} {}", plan::name_of(i.op), i.index)
                      : std::string(plan::name_of(i.op));
}

KRAMA_INLINE void RunFolder::write_rank(io::TraceWriter& file, int rank,
                                        const std::vector<TraceEvent>& events) {
  file.process(rank, fmt::format("rank {}", rank), rank);
  for (const auto lane : lanes) {
    file.thread({rank, static_cast<int>(lane)}, plan::name_of(lane), static_cast<int>(lane));
  }
  for (const auto& e : events) {
    const auto lane = plan::lane_of(e.instr.op);
    file.complete({rank, static_cast<int>(lane)}, name_of(e.instr), plan::name_of(lane), e.begin_us,
                  e.end_us - e.begin_us, {{"step", e.step}, {"micro_batch", e.instr.micro}});
  }
}

KRAMA_INLINE void RunFolder::draw(const std::vector<std::vector<TraceEvent>>& ranks,
                                  const std::filesystem::path& path) {
  std::uint32_t step = 0;
  for (const auto& events : ranks) {
    for (const auto& e : events) step = std::max(step, e.step);
  }
  io::TimelineSvg picture;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::array<std::size_t, lanes.size()> rows{};
    for (const auto lane : lanes) {
      rows[static_cast<std::size_t>(lane)] =
          picture.row(fmt::format("rank {} {}", r, plan::name_of(lane)));
    }
    for (const auto& e : ranks[r]) {
      if (e.step != step) continue;
      picture.box(rows[static_cast<std::size_t>(plan::lane_of(e.instr.op))], name_of(e.instr),
                  static_cast<std::size_t>(e.instr.op), e.begin_us, e.end_us - e.begin_us);
    }
  }
  picture.commit(path);
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
