// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/io/jsonl.hpp>
#include <krama/io/trace_json.hpp>
#include <krama/program/trace.hpp>
#include <krama/train/together.hpp>

namespace krama::train {

/// What a run leaves behind: metrics.jsonl (a line a step), trace.json (for Perfetto), and
/// checkpoint.safetensors. Only rank 0 writes.
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

  /// Writes every rank's recorded instructions: a process a rank, a thread a lane. Times count from
  /// each recorder's start, so start them after a barrier. Collective over comm.
  template <Communicator C>
  void write_trace(C& comm, const TraceRecorder& mine) {
    std::string text;
    for (const auto& e : mine.events()) {
      text += fmt::format("{} {} {} {} {} {}\n", static_cast<int>(e.instr.op), e.instr.index,
                          e.instr.micro, e.step, e.begin_us, e.end_us);
    }
    const auto all = comm.gather_text(text, "trace");
    on_rank_zero(comm, "write trace", [&] {
      io::TraceWriter file(folder_ / "trace.json");
      for (std::size_t r = 0; r < all.size(); ++r) write_rank(file, static_cast<int>(r), all[r]);
      file.commit();
    });
  }

 private:
  static void write_rank(io::TraceWriter& file, int rank, const std::string& text) {
    file.process(rank, fmt::format("rank {}", rank), rank);
    for (const auto lane :
         {plan::Lane::compute, plan::Lane::comm, plan::Lane::data, plan::Lane::link}) {
      file.thread({rank, static_cast<int>(lane)}, plan::name_of(lane), static_cast<int>(lane));
    }
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = text.find('\n', at);
      int op = 0;
      int index = 0;
      int micro = 0;
      unsigned step = 0;
      double begin = 0;
      double finish = 0;
      const int got = std::sscanf(text.substr(at, end - at).c_str(), "%d %d %d %u %lf %lf", &op,
                                  &index, &micro, &step, &begin, &finish);
      KRAMA_EXPECTS(got == 6, "trace of rank {}: line \"{}\" is damaged", rank,
                    text.substr(at, end - at));
      const auto kind = static_cast<plan::Op>(op);
      const std::string name = index >= 0 ? fmt::format("{} {}", plan::name_of(kind), index)
                                          : std::string(plan::name_of(kind));
      file.complete({rank, static_cast<int>(plan::lane_of(kind))}, name,
                    plan::name_of(plan::lane_of(kind)), begin, finish - begin,
                    {{"step", step}, {"micro_batch", micro}});
      at = end + 1;
    }
  }

  std::filesystem::path folder_;
  std::optional<io::JsonLines> metrics_;
};

}  // namespace krama::train
