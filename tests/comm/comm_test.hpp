// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/comm/mpi/communicator.hpp>
#include <krama/tensor/copy.hpp>

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/same_bits.hpp"
#include "support/test_space.hpp"

namespace krama::test {

using Exec = Kokkos::DefaultHostExecutionSpace;
using Host = Kokkos::HostSpace;
/// Where the tensors of OnDevice lie, and who works on them.
using DeviceExec = exec_of<TestDevice>;
using DeviceMemory = mem_of<TestDevice>;

/// All ranks of the test; made by the first test that asks, on all ranks alike.
inline MpiComm& world() {
  static MpiComm comm = [] {
    MpiOptions options;
    options.watchdog_seconds = 60;
    return MpiComm::world(options);
  }();
  return comm;
}

/// Values whose sum depends on the order of adding, different on every rank.
template <class A>
A value(int rank, std::int64_t i) {
  const auto mixed = (static_cast<std::uint64_t>(i) * 2654435761U +
                      40503U * static_cast<std::uint64_t>(rank + 1)) %
                     10007U;
  if constexpr (std::is_same_v<A, std::int64_t>) {
    return static_cast<A>(mixed) - 5000;
  } else {
    return (static_cast<A>(mixed) - A{5000}) * A(0.37) / static_cast<A>(1 + rank * rank * 53);
  }
}

template <class A>
std::vector<A> values_of(int rank, std::int64_t n) {
  std::vector<A> v(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) v[static_cast<std::size_t>(i)] = value<A>(rank, i);
  return v;
}

/// ((r0 + r1) + r2) + …
template <class A>
std::vector<A> sums_in_rank_order(int ranks, std::int64_t n) {
  auto v = values_of<A>(0, n);
  for (int r = 1; r < ranks; ++r) {
    for (std::int64_t i = 0; i < n; ++i) v[static_cast<std::size_t>(i)] += value<A>(r, i);
  }
  return v;
}

template <class A>
TensorRef<A, 1, Host> ref(std::vector<A>& v) {
  return {v.data(), {static_cast<std::int64_t>(v.size())}};
}

/// Values in the memory of the device that is tested. Nothing waits for the copy that brings them
/// there: who reads them has to.
template <class A>
class OnDevice {
 public:
  OnDevice(const DeviceExec& exec, std::vector<A> values)
      : exec_(exec),
        start_(std::move(values)),
        there_(exec, "test values", {static_cast<std::int64_t>(start_.size())}) {
    copy(exec_, there_.ref(), krama::test::ref(start_));
  }
  [[nodiscard]] TensorRef<A, 1, DeviceMemory> ref() const { return there_.ref(); }
  [[nodiscard]] std::vector<A> values() const { return download(exec_, there_.ref()); }

 private:
  DeviceExec exec_;
  std::vector<A> start_;
  Tensor<A, 1, DeviceMemory> there_;
};

/// One way of working to be tested.
struct Way {
  std::string name;
  MpiOptions options;
  std::int64_t largest;  ///< elements worth trying
};

inline std::vector<Way> ways() {
  std::vector<Way> all;
  for (const auto transport : {Transport::direct, Transport::staged}) {
    MpiOptions o = world().options();
    o.transport = transport;
    const std::string name(name_of(transport));
    all.push_back({name, o, 300000});
    o.chunk_bytes = 2048;
    o.chunks_in_flight = 3;
    all.push_back({name + ", chunks of 2 KiB", o, 70000});
    o.max_count = 7;
    all.push_back({name + ", at most 7 elements a message", o, 1000});
  }
  return all;
}

inline std::vector<std::int64_t> sizes(std::int64_t largest) {
  std::vector<std::int64_t> all;
  for (const std::int64_t n : {0, 1, 7, 255, 256, 257, 1000, 5000, 70000, 300000}) {
    if (n <= largest) all.push_back(n);
  }
  return all;
}

/// Even, uneven, with an empty first piece, and all on the last rank.
inline std::vector<Partition> partitions(std::int64_t n, int ranks) {
  std::vector<double> growing;
  std::vector<double> first_empty(static_cast<std::size_t>(ranks), 1.0);
  std::vector<double> all_last(static_cast<std::size_t>(ranks), 0.0);
  for (int r = 0; r < ranks; ++r) growing.push_back(1.0 + 3.0 * r);
  if (ranks > 1) first_empty[0] = 0.0;
  all_last.back() = 1.0;
  return {Partition::even(n, ranks), Partition::by_weight(n, growing),
          Partition::by_weight(n, first_empty, 1), Partition::by_weight(n, all_last)};
}

}  // namespace krama::test
