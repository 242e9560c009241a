// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/emulated_links.hpp>
#include <krama/comm/host.hpp>
#include <krama/comm/mpi/detail/check.hpp>
#include <krama/comm/mpi/options.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/definitions.hpp>

namespace krama::comm::detail {

/// The job's exit code after a stall that nobody handled.
inline constexpr int stalled_exit_code = 86;

/// For whom somebody waits: what a stall's report names.
struct Waiting {
  std::string_view communicator;
  std::string_view operation;
  std::string_view what;
  int rank = 0;
  bool yield = false;
  const MpiOptions* options = nullptr;
  MPI_Comm abort_on = MPI_COMM_NULL;
};

/// Prints the report and ends the job, unless the user said otherwise.
void report_stall(const Waiting& waiting, const StallReport& report);

/// Polls one condition until it holds: the only wait of this folder. Between polls the core is
/// given away where ranks share cores, and a stall is noticed by the waiting thread itself, so no
/// thread but the stepping one ever calls MPI.
class Patience {
 public:
  /// Call after a poll that found nothing; `fill` adds the missing ranks to a stall's report.
  template <class Fill>
  void nothing_yet(const Waiting& waiting, Fill&& fill) {
    // Short waits spin, shorter ones where ranks share cores; long ones always let others run
    // (which costs nothing when nobody wants to).
    if (polls_ > (waiting.yield ? 32U : 512U)) sched_yield();
    if ((++polls_ & 0x3FU) != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (polls_ == 0x40U) since_ = now;
    const double limit = waiting.options->watchdog_seconds;
    const double waited = std::chrono::duration<double>(now - since_).count();
    if (limit <= 0 || waited < limit) return;
    StallReport report{waiting.communicator, waiting.operation, waiting.what, waited, {}, {}};
    fill(report);
    since_ = now;
    report_stall(waiting, report);
  }

 private:
  std::uint64_t polls_ = 0;
  std::chrono::steady_clock::time_point since_;
};

/// Messages in flight. Tokens say which is which when they complete. Keeps its memory between uses.
class Flight {
 public:
  static constexpr int no_rail = -1;  ///< of messages that no emulation delays

  [[nodiscard]] bool empty() const { return requests_.empty() && held_.empty(); }

  /// Where its messages are counted; before the first.
  void count_in(Traffic& traffic) { traffic_ = &traffic; }

  /// From now on messages that `rank` sends over a rail take as long as on `links` (null: as MPI
  /// takes).
  void emulate(std::shared_ptr<EmulatedLinks> links, int rank);

  void send(MPI_Comm comm, const void* data, std::int64_t bytes, int to, int tag,
            std::int64_t token, int rail = no_rail);

  void receive(MPI_Comm comm, void* data, std::int64_t bytes, int from, int tag,
               std::int64_t token);

  /// Waits until at least one message is complete and calls `done(token)` for each that is;
  /// `done` may start new ones. Does nothing when none is in flight.
  template <class Done>
  void wait_some(const Waiting& waiting, Done&& done) {
    if (empty()) return;
    Patience patience;
    while (!poll(waiting)) {
      if (links_ != nullptr) nap();
      patience.nothing_yet(waiting, [this](StallReport& report) { name_missing(report); });
    }
    for (const auto token : done_) done(token);
  }

  /// The same for what is complete now; false when nothing was.
  template <class Done>
  bool try_some(const Waiting& waiting, Done&& done) {
    if (empty() || !poll(waiting)) return false;
    for (const auto token : done_) done(token);
    return true;
  }

  void wait_all(const Waiting& waiting) {
    while (!empty()) wait_some(waiting, [](std::int64_t) {});
  }

  /// After an error: no message may touch the caller's memory any more.
  void abandon() noexcept;

 private:
  struct Note {
    std::int64_t token;
    std::int64_t bytes;
    int peer;
    bool receiving;
  };

  /// A message that an emulated link has not delivered yet.
  struct Held {
    EmulatedLinks::Clock::time_point due;
    MPI_Comm comm;
    const void* data;
    int tag;
    Note note;
  };

  void post(const Held& m);

  /// Hands messages to MPI whose time has come. Those of one pair and rail are due in order.
  void post_due();

  /// Emulated time passes asleep: the cores belong to those who compute.
  void nap() const;

  void add(MPI_Request request, const Note& note);

  bool poll(const Waiting& waiting);

  // A shorter message than expected would otherwise leave the tail of the buffer as it was.
  static void check_length(const Waiting& waiting, const Note& note, const MPI_Status& status);

  void name_missing(StallReport& report) const;

  Traffic* traffic_ = nullptr;
  std::shared_ptr<EmulatedLinks> links_;
  int rank_ = 0;
  std::vector<Held> held_;
  std::vector<MPI_Request> requests_;
  std::vector<Note> notes_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::int64_t> done_;
};

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE void report_stall(const Waiting& waiting, const StallReport& report) {
  const std::string text = to_string(report);
  if (waiting.options->on_stall) {
    waiting.options->on_stall(text);
    return;
  }
  std::fprintf(stderr, "[krama][rank %d/%s] error: %s\n", waiting.rank, host_name().c_str(),
               text.c_str());
  std::fflush(stderr);
  MPI_Abort(waiting.abort_on, stalled_exit_code);
  std::_Exit(stalled_exit_code);  // MPICH 4.2's MPI_Abort may return
}

KRAMA_INLINE void Flight::emulate(std::shared_ptr<EmulatedLinks> links, int rank) {
  links_ = std::move(links);
  rank_ = rank;
}

KRAMA_INLINE void Flight::send(MPI_Comm comm, const void* data, std::int64_t bytes, int to, int tag,
                               std::int64_t token, int rail) {
  traffic_->sent(to, bytes);
  const Held message{
      EmulatedLinks::Clock::time_point{}, comm, data, tag, {token, bytes, to, false}};
  if (links_ == nullptr || rail == no_rail) return post(message);
  held_.push_back(message);
  held_.back().due = links_->arrival(rank_, to, rail, bytes);
}

KRAMA_INLINE void Flight::receive(MPI_Comm comm, void* data, std::int64_t bytes, int from, int tag,
                                  std::int64_t token) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, comm, &request), "MPI_Irecv");
  traffic_->bytes_received += bytes;
  add(request, {token, bytes, from, true});
}

KRAMA_INLINE void Flight::abandon() noexcept {
  for (auto& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  requests_.clear();
  notes_.clear();
  held_.clear();
}

KRAMA_INLINE void Flight::post(const Held& m) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(m.data, static_cast<int>(m.note.bytes), MPI_BYTE, m.note.peer, m.tag, m.comm,
                  &request),
        "MPI_Isend");
  add(request, m.note);
}

KRAMA_INLINE void Flight::post_due() {
  const auto now = EmulatedLinks::Clock::now();
  std::size_t kept = 0;
  for (auto& m : held_) {
    if (m.due <= now) {
      post(m);
    } else {
      held_[kept++] = m;
    }
  }
  held_.resize(kept);
}

KRAMA_INLINE void Flight::nap() const {
  auto until = EmulatedLinks::Clock::now() + std::chrono::microseconds(100);
  for (const auto& m : held_) until = std::min(until, m.due);
  std::this_thread::sleep_until(until);
}

KRAMA_INLINE void Flight::add(MPI_Request request, const Note& note) {
  requests_.push_back(request);
  notes_.push_back(note);
}

KRAMA_INLINE bool Flight::poll(const Waiting& waiting) {
  if (!held_.empty()) post_due();
  const auto n = requests_.size();
  indices_.resize(n);
  statuses_.resize(n);
  int completed = 0;
  const int code = MPI_Testsome(static_cast<int>(n), requests_.data(), &completed, indices_.data(),
                                statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < completed; ++i) {
      check(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, "a message", waiting.rank);
    }
  }
  check(code, "MPI_Testsome", waiting.rank);
  if (completed == 0 || completed == MPI_UNDEFINED) return false;

  done_.clear();
  for (int i = 0; i < completed; ++i) {
    const auto& note = notes_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    if (note.receiving) check_length(waiting, note, statuses_[static_cast<std::size_t>(i)]);
    done_.push_back(note.token);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    notes_[kept++] = notes_[i];
  }
  requests_.resize(kept);
  notes_.resize(kept);
  return true;
}

KRAMA_INLINE void Flight::check_length(const Waiting& waiting, const Note& note,
                                       const MPI_Status& status) {
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", waiting.rank);
  KRAMA_EXPECTS(bytes == note.bytes,
                "{} \"{}\" on communicator \"{}\": rank {} sent {} bytes where rank {} expected "
                "{}; do all ranks make the same calls?",
                waiting.operation, waiting.what, waiting.communicator, note.peer, bytes,
                waiting.rank, note.bytes);
}

KRAMA_INLINE void Flight::name_missing(StallReport& report) const {
  for (const auto& note : notes_) {
    auto& ranks = note.receiving ? report.awaited_from : report.not_taken_by;
    if (std::find(ranks.begin(), ranks.end(), note.peer) == ranks.end()) {
      ranks.push_back(note.peer);
    }
  }
  std::sort(report.awaited_from.begin(), report.awaited_from.end());
  std::sort(report.not_taken_by.begin(), report.not_taken_by.end());
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
