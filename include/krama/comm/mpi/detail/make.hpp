// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <krama/comm/host.hpp>
#include <krama/comm/mpi/control.hpp>
#include <krama/comm/mpi/detail/state.hpp>
#include <krama/comm/version.hpp>
#include <krama/definitions.hpp>

/// How communicators come to be.
namespace krama::comm::detail {

/// A duplicate that reports errors by return codes. Waits without blocking inside MPI.
MPI_Comm duplicate_of(MPI_Comm original, const State& s);

/// Control and bulk communicators like `original`, in this order on every rank.
std::shared_ptr<State> make_state(MPI_Comm original, std::string_view name,
                                  const MpiOptions& options, bool yield);

/// The first exchange of a job. Its format never changes, so that even builds of Krama that agree on
/// nothing else can tell each other so.
struct Hello {
  std::array<char, 8> magic;
  std::uint32_t wire_version;
  std::array<char, 52> library;  ///< "0.1.0"
};
static_assert(sizeof(Hello) == 64);

/// \throws Error, the same on every rank, when the ranks' builds do not talk the same language.
void greet(State& s);

/// Whether the ranks of this host compute with more threads than the host lets them use.
bool is_oversubscribed(State& s);

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE MPI_Comm duplicate_of(MPI_Comm original, const State& s) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(original, &copy, &request), "MPI_Comm_idup", s.rank);
  const auto waiting = s.waiting("duplicate", s.name);
  Patience patience;
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", s.rank);
    if (done != 0) break;
    patience.nothing_yet(waiting, [&s](StallReport& report) {
      for (int r = 0; r < s.size; ++r) {
        if (r != s.rank) report.awaited_from.push_back(r);
      }
    });
  }
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", s.rank);
  return copy;
}

KRAMA_INLINE std::shared_ptr<State> make_state(MPI_Comm original, std::string_view name,
                                               const MpiOptions& options, bool yield) {
  KRAMA_EXPECTS(options.max_count >= 1 && options.max_count <= INT_MAX / 16,
                "MpiOptions: max_count is {}; wanted 1 to {}", options.max_count, INT_MAX / 16);
  KRAMA_EXPECTS(options.rails >= 1 && options.rails <= 64, "MpiOptions: {} rails; wanted 1 to 64",
                options.rails);
  auto s = std::make_shared<State>();
  s->name = name;
  s->options = options;
  s->yield = yield;
  check(MPI_Comm_rank(original, &s->rank), "MPI_Comm_rank");
  check(MPI_Comm_size(original, &s->size), "MPI_Comm_size");
  KRAMA_EXPECTS(options.form.ranks() == 0 || options.form.ranks() == s->size,
                "MpiOptions: communicator \"{}\" of {} ranks has a {} form made for {}", name,
                s->size, options.form.name(), options.form.ranks());
  s->control = duplicate_of(original, *s);
  for (int r = 0; r < options.rails; ++r) s->rails.push_back(duplicate_of(original, *s));
  s->flight.count_in(s->traffic);
  return s;
}

KRAMA_INLINE void greet(State& s) {
  const Hello mine = [] {
    Hello h{{'k', 'r', 'a', 'm', 'a', 0, 0, 0}, wire_version, {}};
    const std::string_view text = library_version;
    std::copy_n(text.begin(), std::min(text.size(), h.library.size() - 1), h.library.begin());
    return h;
  }();
  std::vector<Hello> all(static_cast<std::size_t>(s.size));
  all[static_cast<std::size_t>(s.rank)] = mine;
  const auto waiting = s.waiting("start", "versions");
  s.guarded("start", "versions", [&] {
    for (int r = 0; r < s.size; ++r) {
      if (r == s.rank) continue;
      s.flight.receive(s.control, &all[static_cast<std::size_t>(r)], sizeof(Hello), r, 3, 0);
      s.flight.send(s.control, &mine, sizeof(Hello), r, 3, 0);
    }
    s.flight.wait_all(waiting);
  });
  std::map<std::string, std::vector<int>> groups;
  for (int r = 0; r < s.size; ++r) {
    const auto& h = all[static_cast<std::size_t>(r)];
    groups[fmt::format("krama {}, wire version {}", h.library.data(), h.wire_version)].push_back(r);
  }
  if (groups.size() == 1) return;
  std::string text;
  for (const auto& [version, ranks] : groups) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", krama::detail::list_ranks(ranks),
                        version);
  }
  throw Error("the executables of this job were built from different versions of Krama: " + text +
              "; build them all from one");
}

KRAMA_INLINE bool is_oversubscribed(State& s) {
  const auto cores = static_cast<int>(allowed_cores().size());
  const auto rows = exchange(s, {Call::gather_text, DType::u8, 0, 0, "krama::comm: hosts"},
                             fmt::format("{} {} {}", host_threads(), cores, host_name()));
  const std::string host = host_name();
  int threads = 0;
  int most_cores = 1;
  for (const auto& row : rows) {
    const auto first = row.find(' ');
    const auto second = row.find(' ', first + 1);
    if (row.substr(second + 1) != host) continue;
    threads += std::stoi(row.substr(0, first));
    most_cores = std::max(most_cores, std::stoi(row.substr(first + 1, second - first - 1)));
  }
  return threads > most_cores;
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
