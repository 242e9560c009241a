// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <krama/comm/nccl/communicator.hpp>
#include <krama/kokkos_ext/event.hpp>
#include <krama/testing/guarded/device.hpp>

/// A stand-in for NCCL on the stand-in device: the same calls, carried out by MPI at the end of a
/// group, with sums in rank order; and the library's ways to fail, on demand.
namespace doors_test {

struct Faults {
  enum class Result : std::uint8_t { good, in_progress, invalid, remote };
  Result make_id = Result::good;
  Result call = Result::good;   ///< of every operation
  Result state = Result::good;  ///< once an operation is under way
  bool hangs = false;           ///< operations never end
  int slow = 0;                 ///< asks that are answered "in progress" after each group
  int aborts = 0;
  int ends = 0;
  int open_groups = 0;
  int operations = 0;
};
inline Faults& faults() {
  static Faults f;
  return f;
}

struct FakeLibrary {
  using Exec = krama::testing::GuardedDevice;
  using Result = Faults::Result;
  struct Ranks {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int size = 1;
    int asks = 0;
  };
  using Comm = Ranks*;
  struct Id {
    char bytes[128];
  };
  static constexpr const char* name = "FakeCL";

  struct Event : krama::kokkos_ext::Event<Exec> {
    [[nodiscard]] bool ready() const { return !faults().hangs; }
  };

  static bool good(Result r) { return r == Result::good; }
  static bool in_progress(Result r) { return r == Result::in_progress; }
  static std::string text(Result r, Comm) {
    return r == Result::remote ? "a peer has gone (fake)" : "invalid argument (fake)";
  }

  static Result make_id(Id& id) {
    std::memset(id.bytes, 'k', sizeof(id.bytes));
    return faults().make_id;
  }
  /// Collective over the job, as all tests make their communicators.
  static Result start(Comm& comm, int size, const Id& id, int rank) {
    for (const char c : id.bytes) {
      if (c != 'k') return Result::invalid;
    }
    comm = new Ranks{MPI_COMM_NULL, rank, size, faults().slow};
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm->comm);
    return faults().slow > 0 ? Result::in_progress : Result::good;
  }
  static Result state(Comm comm) {
    if (faults().state != Result::good) return faults().state;
    return comm->asks-- > 0 ? Result::in_progress : Result::good;
  }
  static Result finish(Comm) { return Result::good; }
  static void destroy(Comm comm) {
    ++faults().ends;
    MPI_Comm_free(&comm->comm);
    delete comm;
  }
  static void abort(Comm comm) {
    ++faults().aborts;
    MPI_Comm_free(&comm->comm);
    delete comm;
  }

  static Result begin_group() {
    ++faults().open_groups;
    return Result::good;
  }
  static Result end_group() {
    --faults().open_groups;
    return Result::good;
  }
  static Result reduce(void* data, std::int64_t n, krama::DType type, int root, Comm comm,
                       const Exec&) {
    if (!asked(comm)) return faults().call;
    const std::int64_t bytes = n * krama::size_of(type);
    const auto mine = bytes_of(data, bytes);
    std::vector<char> all(comm->rank == root ? mine.size() * static_cast<std::size_t>(comm->size)
                                             : 0);
    MPI_Gather(mine.data(), static_cast<int>(bytes), MPI_BYTE, all.data(), static_cast<int>(bytes),
               MPI_BYTE, root, comm->comm);
    if (comm->rank != root) return Result::good;
    for (int r = 0; r < comm->size; ++r) {
      const char* part = all.data() + r * bytes;
      if (type == krama::DType::f64) add<double>(data, part, n, r);
      if (type == krama::DType::f32) add<float>(data, part, n, r);
      if (type == krama::DType::i64) add<std::int64_t>(data, part, n, r);
    }
    return Result::good;
  }
  static Result reduce_scatter(void* data, std::int64_t n, krama::DType type, int, Comm comm,
                               const Exec& exec) {
    Result result = Result::good;
    for (int p = 0; p < comm->size && result == Result::good; ++p) {
      result = reduce(at(data, p * n * krama::size_of(type)), n, type, p, comm, exec);
    }
    return result;
  }
  static Result broadcast(void* data, std::int64_t bytes, int root, Comm comm, const Exec&) {
    if (!asked(comm)) return faults().call;
    auto copy = bytes_of(data, bytes);
    MPI_Bcast(copy.data(), static_cast<int>(bytes), MPI_BYTE, root, comm->comm);
    std::memcpy(data, copy.data(), copy.size());
    return Result::good;
  }
  static Result allgather(void* data, std::int64_t bytes, int rank, Comm comm, const Exec&) {
    if (!asked(comm)) return faults().call;
    const auto mine = bytes_of(at(data, rank * bytes), bytes);
    std::vector<char> all(mine.size() * static_cast<std::size_t>(comm->size));
    MPI_Allgather(mine.data(), static_cast<int>(bytes), MPI_BYTE, all.data(),
                  static_cast<int>(bytes), MPI_BYTE, comm->comm);
    std::memcpy(data, all.data(), all.size());
    return Result::good;
  }

 private:
  static bool asked(Comm comm) {
    ++faults().operations;
    comm->asks = faults().slow;
    return faults().call == Result::good && faults().open_groups == 1;
  }
  static void* at(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }
  static std::vector<char> bytes_of(const void* data, std::int64_t n) {
    const char* p = static_cast<const char*>(data);
    return {p, p + n};
  }
  template <class A>
  static void add(void* data, const char* part, std::int64_t n, int r) {
    A* sum = static_cast<A*>(data);
    for (std::int64_t i = 0; i < n; ++i) {
      A v{};
      std::memcpy(&v, part + i * static_cast<std::int64_t>(sizeof(A)), sizeof(A));
      sum[i] = r == 0 ? v : sum[i] + v;
    }
  }
};

using FakeComm = krama::DeviceComm<FakeLibrary, krama::MpiComm>;
static_assert(krama::Communicator<FakeComm>);

}  // namespace doors_test
