// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/links.hpp>
#include <krama/comm/topology.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

struct LinkMeasurement {
  double seconds = 0.04;  ///< that all pairs may take together, about; slow links take longer
  int round_trips = 12;
  std::int64_t probe_bytes = std::int64_t{64} * 1024;
  std::int64_t largest_bytes = std::int64_t{4} * 1024 * 1024;
};

namespace comm::detail {

/// One rank's side of the measurement of one pair. Both ends call the same functions in the same
/// order; `first` tells which end this is.
template <Channel Data, Channel Control>
class PairTest {
 public:
  PairTest(Data& data, Control& control, int peer, bool first)
      : data_(&data), control_(&control), peer_(peer), first_(first) {}

  /// Half of the quickest of `n` round trips, as this end saw them.
  double latency(int n) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < n; ++i) {
      const auto begin = Clock::now();
      if (first_) {
        send_token();
        take_token();
      } else {
        take_token();
        send_token();
      }
      best = std::min(best, since(begin));
    }
    // The second end also waits for the first one to begin again, so only the first one's counts.
    return exchanged(best / 2).first;
  }

  /// Seconds that `bytes` took, by direction, as their receivers saw it.
  struct Both {
    double to_second = 0;
    double to_first = 0;
  };
  Both transfers(std::int64_t bytes) {
    if (first_) give(bytes);
    const double here = take(bytes);
    if (!first_) give(bytes);
    const auto [at_first, at_second] = exchanged(here);
    return {at_second, at_first};
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Host = Kokkos::HostSpace;
  static constexpr std::string_view what = "krama::comm::measure_links";

  static double since(Clock::time_point begin) {
    return std::max(1e-9, std::chrono::duration<double>(Clock::now() - begin).count());
  }

  /// The message is copied and posted before the other end begins to look at its clock.
  void give(std::int64_t bytes) {
    buffer_.resize(static_cast<std::size_t>(bytes / 8));
    data_->send(exec_, TensorRef<const double, 1, Host>(buffer_.data(), {bytes / 8}), peer_, what);
    send_token();
    take_token();  // taken: meanwhile this end drives its half of the transfer
  }
  double take(std::int64_t bytes) {
    buffer_.resize(static_cast<std::size_t>(bytes / 8));
    take_token();
    const auto begin = Clock::now();
    data_->receive(exec_, TensorRef<double, 1, Host>(buffer_.data(), {bytes / 8}), peer_, what);
    const double seconds = since(begin);
    send_token();
    return seconds;
  }

  void send_token() {
    control_->send(exec_, TensorRef<const double, 1, Host>(&token_, {1}), peer_, what);
  }
  double take_token() {
    double got = 0;
    control_->receive(exec_, TensorRef<double, 1, Host>(&got, {1}), peer_, what);
    return got;
  }
  /// Both ends' numbers, the first end's first: the same on both.
  std::pair<double, double> exchanged(double mine) {
    token_ = mine;
    send_token();
    const double theirs = take_token();
    return first_ ? std::pair{mine, theirs} : std::pair{theirs, mine};
  }

  Data* data_;
  Control* control_;
  int peer_;
  bool first_;
  double token_ = 0;
  std::vector<double> buffer_;
  Kokkos::DefaultHostExecutionSpace exec_;
};

/// {latency, bytes/s to the second end, bytes/s to the first end}. Both ends decide alike how much
/// to send, from numbers that both have.
template <class Test>
std::array<double, 3> measure_pair(Test test, double seconds, const LinkMeasurement& options) {
  test.latency(2);
  const double latency = test.latency(options.round_trips);
  auto best = test.transfers(options.probe_bytes);
  std::int64_t bytes = options.probe_bytes;
  // As much as three transfers each way may take; a link on which the probe alone takes that long is
  // known well enough.
  const double worth = std::max(best.to_first, best.to_second) * 6;
  if (worth < seconds) {
    const double times = std::min(seconds / worth, static_cast<double>(options.largest_bytes) /
                                                       static_cast<double>(options.probe_bytes));
    bytes = options.probe_bytes * std::max<std::int64_t>(1, static_cast<std::int64_t>(times));
    best = test.transfers(bytes);
    for (int i = 0; i < 2; ++i) {
      const auto again = test.transfers(bytes);
      best = {std::min(best.to_second, again.to_second), std::min(best.to_first, again.to_first)};
    }
  }
  const auto bandwidth = [&](double took) {
    return static_cast<double>(bytes) / std::max(took - latency, took / 2);
  };
  return {latency, bandwidth(best.to_second), bandwidth(best.to_first)};
}

}  // namespace comm::detail

/// A short self-test of the links between the groups of comm's ranks, in host memory, through
/// channels of comm: for each pair of groups between the two ranks that stand for it, within a group
/// between its first two; a group of one rank keeps `assumed_link`. The pairs take their turn. Every
/// rank gets the same bits. Collective over comm; waits. \throws Error when `topology` is not comm's.
template <Communicator C>
LinkTable measure_links(C& comm, const Topology& topology, const LinkMeasurement& options = {}) {
  KRAMA_EXPECTS(topology.ranks() == comm.size(),
                "measure_links: a topology of {} ranks for a communicator of {}", topology.ranks(),
                comm.size());
  KRAMA_EXPECTS(options.seconds > 0 && options.round_trips >= 1 && options.probe_bytes >= 8 &&
                    options.probe_bytes % 8 == 0 && options.largest_bytes >= options.probe_bytes,
                "measure_links: wanted seconds above 0, a round trip or more, and a probe of whole "
                "8 bytes that is not larger than the largest transfer");
  const int groups = topology.groups();
  LinkTable links(groups);
  if (comm.size() == 1) return links;
  auto data = comm.channel("krama::comm::measure_links");
  auto control = comm.channel("krama::comm::measure_links: control");
  const double seconds = options.seconds / (groups * (groups + 1) / 2);
  for (int a = 0; a < groups; ++a) {
    for (int b = a; b < groups; ++b) {
      const auto [p, q] = topology.link_pair(a, b);
      if (p == q) continue;
      std::array<double, 3> found{};
      if (comm.rank() == p || comm.rank() == q) {
        const bool first = comm.rank() == p;
        comm::detail::PairTest test(data, control, first ? q : p, first);
        found = comm::detail::measure_pair(std::move(test), seconds, options);
        if (!first) found = {};  // one end's word is enough
      }
      // The others wait here, so that no two pairs are measured at once.
      comm.sum_in_rank_order(found, "krama::comm::measure_links");
      // Within a group the slower direction counts.
      links.set(a, b, {found[0], a == b ? std::min(found[1], found[2]) : found[1]});
      if (a != b) links.set(b, a, {found[0], found[2]});
    }
  }
  return links;
}

/// A line for each pair: "left -> right: 1.9 us, 4.31 GB/s".
std::string describe(const LinkTable& links, const Topology& topology);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE std::string describe(const LinkTable& links, const Topology& topology) {
  KRAMA_EXPECTS(links.groups() == topology.groups(), "links of {} groups, a topology of {}",
                links.groups(), topology.groups());
  std::string text;
  for (int a = 0; a < links.groups(); ++a) {
    for (int b = 0; b < links.groups(); ++b) {
      const bool assumed = a == b && topology.members(a).size() == 1;
      const Link& l = links.link(a, b);
      text += fmt::format("{} -> {}: {:.3g} us, {:.3g} GB/s{}\n", topology.group_name(a),
                          topology.group_name(b), l.latency_seconds * 1e6,
                          l.bytes_per_second * 1e-9, assumed ? " (assumed)" : "");
    }
  }
  return text;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
