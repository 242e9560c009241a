// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/mpi/detail/check.hpp>
#include <krama/comm/mpi/detail/flight.hpp>
#include <krama/comm/mpi/options.hpp>
#include <krama/comm/route.hpp>
#include <krama/definitions.hpp>

namespace krama::comm::detail {

/// Memory that only grows and begins on a page, so that copies into it by the kernel or by vector
/// instructions are aligned as the tensors are. Its contents do not survive growing.
class Buffer {
 public:
  unsigned char* at_least(std::size_t bytes);
  [[nodiscard]] unsigned char* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t alignment{4096};
  struct Free {
    void operator()(unsigned char* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<unsigned char, Free> data_;
  std::size_t size_ = 0;
};

/// Things that are used one after the other, a few at a time, and keep their memory in between.
template <class T>
class Pool {
 public:
  std::unique_ptr<T> take() {
    if (idle_.empty()) return std::make_unique<T>();
    auto one = std::move(idle_.back());
    idle_.pop_back();
    return one;
  }
  void give_back(std::unique_ptr<T> one) { idle_.push_back(std::move(one)); }

 private:
  std::vector<std::unique_ptr<T>> idle_;
};

/// How far one line of a route has got.
struct LineProgress {
  std::vector<std::int32_t> left;  ///< chunks of each message that are not yet ready
  std::int32_t next = 0;           ///< message to start next
  std::int32_t under_way = 0;

  void restart(const Route::Line& line);
};
/// How far the lines to and from one peer have got.
struct PeerProgress {
  LineProgress up_to, up_from, down_to, down_from;
  std::int64_t slot = 0;  ///< in scratch, elements
  std::int64_t slot_length = 0;
};

/// What one transfer of chunks needs for itself. A transfer of 64 KiB takes 20 us, in which a dozen
/// allocations would show: all of it keeps its memory.
struct Workspace {
  Flight flight;                          ///< its messages
  Buffer scratch;                         ///< incoming sums
  std::vector<PeerProgress> peers;        ///< by rank
  std::vector<std::int32_t> waiting_for;  ///< by chunk: children whose sums are not here
  std::vector<const void*> sources;       ///< by edge: where a child's sum lies
};

/// What MpiComm's copies share. Control and bulk traffic have communicators of their own, all made up
/// front, so that neither can ever match a message of the other.
struct State {
  std::string name;
  MpiOptions options;
  MPI_Comm control = MPI_COMM_NULL;
  std::vector<MPI_Comm> rails;  ///< bulk traffic; at least one
  int rank = 0;
  int size = 1;
  bool yield = false;
  Traffic traffic;
  Flight flight;                       ///< of everything but chunks
  std::uint64_t calls = 0;             ///< operations on tensors so far: part of every signature
  std::set<std::uint64_t> names_seen;  ///< hashes of (operation, name) already compared
  std::set<std::uint64_t> under_way;   ///< numbers of the calls that were started and not ended
  Pool<Workspace> workspaces;
  Pool<Buffer> staging;   ///< tensors' bytes where the transport may not touch them
  bool in_doubt = false;  ///< a transfer ended before its messages did
  std::string broken;     ///< why this communicator cannot be used any more

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State();

  /// Frees a communicator, unless a failure left messages in it that nobody took: MPICH ends the job
  /// when such a one is freed. It is then left to the end of MPI.
  void release(MPI_Comm& comm) const;

  /// Whoever sends message `m` of a sequence and whoever receives it find it on the same rail.
  [[nodiscard]] MPI_Comm rail(std::int64_t m = 0) const {
    return rails[static_cast<std::size_t>(rail_number(m))];
  }
  [[nodiscard]] int rail_number(std::int64_t m) const {
    return static_cast<int>(m % static_cast<std::int64_t>(rails.size()));
  }

  /// The route of a partition in chunks of `chunk` elements. Training asks for the same few in every
  /// step, so they are kept.
  std::shared_ptr<const Route> route(const Partition& partition, std::int64_t chunk);

  void set_form(const Form& form);

  [[nodiscard]] Waiting waiting(std::string_view operation, std::string_view what) const {
    return {name, operation, what, rank, yield, &options, control};
  }

  /// Runs one operation: refuses on a broken communicator, and makes it one when the operation
  /// throws with messages under way (they may not touch the caller's memory any more).
  template <class Operation>
  void guarded(std::string_view operation, std::string_view what, Operation&& body) {
    KRAMA_EXPECTS(broken.empty(), "{} \"{}\": communicator \"{}\" broke earlier: {}", operation,
                  what, name, broken);
    try {
      std::forward<Operation>(body)();
    } catch (const std::exception& e) {
      if (in_doubt || !flight.empty()) {
        flight.abandon();
        broken = e.what();
      }
      throw;
    }
  }

 private:
  struct KnownRoute {
    Partition partition;
    std::int64_t chunk;
    std::shared_ptr<const Route> route;
  };
  std::vector<KnownRoute> routes_;
};

/// FNV-1a, 64 bits: the same number on every rank for the same bytes.
std::uint64_t hash_bytes(const void* data, std::size_t n, std::uint64_t h = 0xcbf29ce484222325U);
inline std::uint64_t hash_text(std::string_view text) {
  return hash_bytes(text.data(), text.size());
}

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE unsigned char* Buffer::at_least(std::size_t bytes) {
  if (bytes > size_) {
    data_.reset();
    data_.reset(static_cast<unsigned char*>(::operator new(bytes, alignment)));
    size_ = bytes;
  }
  return data_.get();
}

KRAMA_INLINE void LineProgress::restart(const Route::Line& line) {
  left.clear();
  for (const auto& m : line.messages) left.push_back(m.chunks);
  next = 0;
  under_way = 0;
}

KRAMA_INLINE State::~State() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  release(control);
  for (auto& rail : rails) release(rail);
}

KRAMA_INLINE void State::release(MPI_Comm& comm) const {
  if (comm == MPI_COMM_NULL || !broken.empty()) return;
  int waiting_there = 0;
  const int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &waiting_there, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && waiting_there == 0) MPI_Comm_free(&comm);
}

KRAMA_INLINE std::shared_ptr<const Route> State::route(const Partition& partition,
                                                       std::int64_t chunk) {
  for (const auto& known : routes_) {
    if (known.chunk == chunk && known.partition == partition) return known.route;
  }
  constexpr std::size_t most = 64;
  if (routes_.size() == most) routes_.erase(routes_.begin());
  routes_.push_back(
      {partition, chunk, std::make_shared<const Route>(options.form, partition, rank, chunk)});
  return routes_.back().route;
}

KRAMA_INLINE void State::set_form(const Form& form) {
  options.form = form;
  routes_.clear();
}

KRAMA_INLINE std::uint64_t hash_bytes(const void* data, std::size_t n, std::uint64_t h) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < n; ++i) h = (h ^ p[i]) * 0x100000001b3U;
  return h;
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
