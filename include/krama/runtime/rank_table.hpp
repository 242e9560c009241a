// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/host.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/core/error.hpp>
#include <krama/core/join.hpp>
#include <krama/runtime/build_info.hpp>

namespace krama {

/// The ranks of a job as a table, and what is likely to make it slow. The same on every rank.
struct RankTable {
  std::string text;                   ///< several lines, each ended
  std::vector<std::string> warnings;  ///< one line each
};

namespace detail {
inline constexpr std::size_t rank_columns = 7;
using RankRow = std::array<std::string, rank_columns>;

inline std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

inline std::string memory_text() {
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return bytes > 0 ? fmt::format("{:.0f} GiB", bytes / (1024.0 * 1024.0 * 1024.0)) : "?";
}
}  // namespace detail

/// Gathers a row from every rank. Collective over comm; waits. Needs Kokkos.
template <Communicator C>
RankTable make_rank_table(C& comm) {
  const std::string mine = fmt::format(
      "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", host_name(), build_name(),
      Kokkos::DefaultExecutionSpace::name(), host_threads(), detail::memory_text(),
      comm.transport(), join(allowed_cores(), ","), optimized_build ? "" : "unoptimised");
  const auto rows = comm.gather_text(mine, "krama::runtime::rank_table");

  RankTable table;
  std::vector<detail::RankRow> cells{
      {"rank", "host", "build", "back end", "threads", "memory", "transport"}};
  struct Host {
    int threads = 0;
    std::set<std::string> cores;
    std::vector<int> ranks;
  };
  std::map<std::string, Host> hosts;
  std::vector<int> unoptimised;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto part = detail::split_text(rows[r], '\t');
    KRAMA_EXPECTS(part.size() == 8, "rank table: rank {} sent \"{}\"", r, rows[r]);
    cells.push_back({std::to_string(r), part[0], part[1], part[2], part[3], part[4], part[5]});
    auto& host = hosts[part[0]];
    host.threads += std::stoi(part[3]);
    // Ranks may be bound to cores of their own, so a host's cores are those of any of its ranks.
    for (const auto& core : detail::split_text(part[6], ',')) host.cores.insert(core);
    host.ranks.push_back(static_cast<int>(r));
    if (!part[7].empty()) unoptimised.push_back(static_cast<int>(r));
  }

  std::array<std::size_t, detail::rank_columns> widths{};
  for (const auto& row : cells) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += fmt::format("{:<{}}  ", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table.text += line + "\n";
  }

  if (!unoptimised.empty()) {
    table.warnings.push_back(
        fmt::format("{} run{} an unoptimised build; configure with -DCMAKE_BUILD_TYPE=Release",
                    detail::list_ranks(unoptimised), unoptimised.size() == 1 ? "s" : ""));
  }
  for (const auto& [name, host] : hosts) {
    if (host.threads > static_cast<int>(host.cores.size())) {
      table.warnings.push_back(fmt::format(
          "{} on {} compute with {} threads in all on {} cores; lower OMP_NUM_THREADS or the "
          "number of ranks",
          detail::list_ranks(host.ranks), name, host.threads, host.cores.size()));
    }
  }
  return table;
}

}  // namespace krama
