// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <set>
#include <string>
#include <vector>

#include <krama/comm/rank_facts.hpp>
#include <krama/comm/topology.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/core/join.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// The ranks of a job as a table, and what is likely to make it slow. The same on every rank.
struct RankTable {
  std::string text;                   ///< several lines, each ended
  std::vector<std::string> warnings;  ///< one line each
};

namespace detail {
inline constexpr std::size_t rank_columns = 9;
using RankRow = std::array<std::string, rank_columns>;

inline std::string memory_text(std::int64_t bytes) {
  return bytes > 0 ? fmt::format("{:.0f} GiB", static_cast<double>(bytes) / 1073741824.0) : "?";
}

std::string lay_out(const std::vector<RankRow>& rows);

std::vector<std::string> rank_warnings(const Topology& topology);
}  // namespace detail

/// The table of what the ranks said of themselves. Pure.
RankTable make_rank_table(const Topology& topology);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama::detail {

KRAMA_INLINE std::string lay_out(const std::vector<RankRow>& rows) {
  std::array<std::size_t, rank_columns> widths{};
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += fmt::format("{:<{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

KRAMA_INLINE std::vector<std::string> rank_warnings(const Topology& topology) {
  std::vector<std::string> warnings;
  std::vector<int> unoptimised;
  for (int r = 0; r < topology.ranks(); ++r) {
    if (!topology.facts(r).optimized) unoptimised.push_back(r);
  }
  if (!unoptimised.empty()) {
    warnings.push_back(
        fmt::format("{} run{} an unoptimised build; configure with -DCMAKE_BUILD_TYPE=Release",
                    list_ranks(unoptimised), unoptimised.size() == 1 ? "s" : ""));
  }
  for (int h = 0; h < topology.hosts(); ++h) {
    const auto& ranks = topology.on_host(h);
    int threads = 0;
    // Ranks may be bound to cores of their own, so a host's cores are those of any of its ranks.
    std::set<std::string> cores;
    for (const int r : ranks) {
      threads += topology.facts(r).threads;
      for (const auto& core : split(topology.facts(r).cores, ',')) cores.insert(core);
    }
    if (threads > static_cast<int>(cores.size())) {
      warnings.push_back(fmt::format(
          "{} on {} compute with {} threads in all on {} cores; lower OMP_NUM_THREADS or the "
          "number of ranks",
          list_ranks(ranks), topology.facts(ranks.front()).host, threads, cores.size()));
    }
  }
  return warnings;
}

}  // namespace krama::detail

namespace krama {

KRAMA_INLINE RankTable make_rank_table(const Topology& topology) {
  std::vector<detail::RankRow> rows{
      {"rank", "host", "group", "build", "device", "back end", "threads", "memory", "transport"}};
  for (int r = 0; r < topology.ranks(); ++r) {
    const RankFacts& f = topology.facts(r);
    rows.push_back({std::to_string(r), f.host, topology.group_name(topology.group_of(r)), f.build,
                    f.architecture, f.back_end, std::to_string(f.threads),
                    detail::memory_text(f.memory_bytes), f.transport});
  }
  return {detail::lay_out(rows), detail::rank_warnings(topology)};
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
