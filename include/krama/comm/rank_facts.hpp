// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <krama/comm/host.hpp>
#include <krama/core/build_info.hpp>
#include <krama/core/error.hpp>
#include <krama/core/join.hpp>
#include <krama/definitions.hpp>
#include <krama/kokkos_ext/device_facts.hpp>

namespace krama {

/// What a rank says of itself. The one source of these facts: the table of ranks, the groups and
/// whoever else wants to know read them from a Topology.
struct RankFacts {
  std::string host;
  std::string vendor;        ///< of the device it computes on: "nvidia", "amd", "cpu"
  std::string architecture;  ///< "sm_90", "gfx942", "x86-64"
  std::int64_t memory_bytes = 0;
  std::string back_end;   ///< Kokkos' default execution space
  std::string build;      ///< of its executable
  std::string transport;  ///< of the communicator that the facts came through
  std::string group;      ///< the group's name that was asked for; empty: by vendor
  std::string cores;      ///< that it may use, "0,1"
  int threads = 1;
  bool optimized = true;

  friend bool operator==(const RankFacts&, const RankFacts&) = default;
};

/// KRAMA_GROUP, or nothing: the name of the group that this rank wants to be in.
std::string default_group();

/// This rank's facts, its default device's and this executable's. Needs Kokkos.
inline RankFacts facts_of_this_rank(std::string transport, std::string group = default_group()) {
  const auto device = kokkos_ext::device_facts(Kokkos::DefaultExecutionSpace());
  return {.host = host_name(),
          .vendor = device.vendor,
          .architecture = device.architecture,
          .memory_bytes = device.memory_bytes,
          .back_end = Kokkos::DefaultExecutionSpace::name(),
          .build = build_name(),
          .transport = std::move(transport),
          .group = std::move(group),
          .cores = join(allowed_cores(), ","),
          .threads = host_threads(),
          .optimized = optimized_build};
}

/// One line; what a field may not hold (a tab, a line's end) becomes a space.
std::string to_text(const RankFacts& f);

/// What `to_text` of rank `rank` wrote. \throws Error when it did not.
RankFacts facts_from_text(std::string_view text, std::size_t rank);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE std::string default_group() {
  const char* name = std::getenv("KRAMA_GROUP");
  return name == nullptr ? "" : name;
}

KRAMA_INLINE std::string to_text(const RankFacts& f) {
  std::string line;
  for (std::string field : {f.host, f.vendor, f.architecture, std::to_string(f.memory_bytes),
                            f.back_end, f.build, f.transport, f.group, f.cores,
                            std::to_string(f.threads), std::string(f.optimized ? "1" : "0")}) {
    std::replace_if(field.begin(), field.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    line += field + '\t';
  }
  line.pop_back();
  return line;
}

KRAMA_INLINE RankFacts facts_from_text(std::string_view text, std::size_t rank) {
  const auto part = split(text, '\t');
  KRAMA_EXPECTS(part.size() == 11, "facts of rank {}: {} fields in \"{}\"; wanted 11", rank,
                part.size(), text);
  const auto number = [&](const std::string& word) {
    std::int64_t value = 0;
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, value);
    KRAMA_EXPECTS(error == std::errc{} && end == last, "facts of rank {}: \"{}\" is no number",
                  rank, word);
    return value;
  };
  return {.host = part[0],
          .vendor = part[1],
          .architecture = part[2],
          .memory_bytes = number(part[3]),
          .back_end = part[4],
          .build = part[5],
          .transport = part[6],
          .group = part[7],
          .cores = part[8],
          .threads = static_cast<int>(number(part[9])),
          .optimized = number(part[10]) != 0};
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
