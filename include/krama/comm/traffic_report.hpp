// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/rank_facts.hpp>
#include <krama/comm/topology.hpp>
#include <krama/core/error.hpp>
#include <krama/core/join.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// What all ranks of a communicator have sent, by groups.
struct TrafficReport {
  int groups = 0;
  std::vector<std::int64_t> bytes;         ///< from one group to another, row by row
  std::vector<std::int64_t> bytes_staged;  ///< by group: copied to and from staging buffers
  std::int64_t messages = 0;

  [[nodiscard]] std::int64_t between(int from, int to) const {
    return bytes[static_cast<std::size_t>(from * groups + to)];
  }
};

/// Adds up what the ranks counted, up to this call. Collective over comm; waits.
/// \throws Error when `topology` is not comm's.
template <Communicator C>
TrafficReport gather_traffic(C& comm, const Topology& topology) {
  KRAMA_EXPECTS(topology.ranks() == comm.size(),
                "traffic: a topology of {} ranks for a communicator of {}", topology.ranks(),
                comm.size());
  const Traffic mine = comm.traffic();
  auto to = mine.bytes_to;
  to.resize(static_cast<std::size_t>(comm.size()));
  to.push_back(mine.bytes_staged);
  to.push_back(mine.messages_sent);
  const auto all = comm.gather_text(join(to, " "), "krama::comm::traffic");

  TrafficReport report;
  report.groups = topology.groups();
  report.bytes.assign(static_cast<std::size_t>(report.groups * report.groups), 0);
  report.bytes_staged.assign(static_cast<std::size_t>(report.groups), 0);
  for (int r = 0; r < comm.size(); ++r) {
    const auto words = split(all[static_cast<std::size_t>(r)], ' ');
    KRAMA_EXPECTS(words.size() == to.size(), "traffic: rank {} sent {} numbers, wanted {}", r,
                  words.size(), to.size());
    const auto number = [&](std::size_t i) { return std::int64_t{std::atoll(words[i].c_str())}; };
    const int from = topology.group_of(r);
    for (int q = 0; q < comm.size(); ++q) {
      report.bytes[static_cast<std::size_t>(from * report.groups + topology.group_of(q))] +=
          number(static_cast<std::size_t>(q));
    }
    report.bytes_staged[static_cast<std::size_t>(from)] += number(words.size() - 2);
    report.messages += number(words.size() - 1);
  }
  return report;
}

/// A line for each pair of groups between which there are two ranks, and what was copied through
/// staging buffers.
std::string describe(const TrafficReport& report, const Topology& topology);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE std::string describe(const TrafficReport& report, const Topology& topology) {
  const auto mib = [](std::int64_t bytes) {
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0);
  };
  std::string text = fmt::format("traffic: {} messages", report.messages);
  for (int a = 0; a < report.groups; ++a) {
    for (int b = 0; b < report.groups; ++b) {
      if (a == b && topology.members(a).size() == 1) continue;
      text += fmt::format("\n  {} -> {}: {}", topology.group_name(a), topology.group_name(b),
                          mib(report.between(a, b)));
    }
    text += fmt::format("\n  {}: {} through staging buffers", topology.group_name(a),
                        mib(report.bytes_staged[static_cast<std::size_t>(a)]));
  }
  return text;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
