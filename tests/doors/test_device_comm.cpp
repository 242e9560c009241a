// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// DeviceComm, which carries NCCL and RCCL, with a stand-in for the library on the stand-in device:
// what it asks of the library, what it waits for, and how each failure ends.
#include <krama/core/dtype.hpp>
#include <krama/tensor/copy.hpp>

#include <catch2/catch_all.hpp>
#include <vector>

#include "comm/comm_test.hpp"
#include "doors/fake_library.hpp"
#include "support/all_ok.hpp"

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;
using doors_test::FakeComm;
using doors_test::Faults;
using doors_test::faults;
using krama::Partition;
using krama::Tensor;
using krama::TensorRef;
using krama::testing::DelayedWork;
using krama::testing::GuardedDevice;
using krama::testing::GuardedSpace;

namespace {

FakeComm make(double watchdog = 30) {
  faults() = {};
  return FakeComm(world(), GuardedDevice{}, "fake", watchdog);
}

template <class T>
Tensor<T, 1, GuardedSpace> put(const std::vector<T>& v) {
  const GuardedDevice exec;
  Tensor<T, 1, GuardedSpace> t(exec, "doors", {static_cast<std::int64_t>(v.size())});
  krama::upload(exec, t.ref(), std::span<const T>(v));
  return t;  // the copy may still be waiting: operations start after it
}

/// Alike, unlike, some empty.
std::vector<Partition> cuts(int n) {
  std::vector<std::int64_t> alike{0}, unlike{0}, one{0};
  for (std::int64_t r = 0; r < n; ++r) {
    alike.push_back(10 * (r + 1));
    unlike.push_back(unlike.back() + 3 * r);
    one.push_back(r == 0 ? 0 : 17);
  }
  return {Partition(alike), Partition(unlike), Partition(one)};
}

template <class A>
void sums() {
  auto comm = make();
  const GuardedDevice exec;
  const DelayedWork delayed;
  for (const auto& partition : cuts(comm.size())) {
    const std::int64_t n = partition.size();
    const auto want = sums_in_rank_order<A>(comm.size(), n);
    const auto mine = values_of<A>(comm.rank(), n);
    const std::int64_t b = partition.begin(comm.rank());
    const std::int64_t e = partition.end(comm.rank());
    const std::string what = std::to_string(partition.cuts()[1]) + std::to_string(n);

    const auto t = put(mine);
    comm.reduce_scatter(exec, t.ref(), partition, what);
    CHECK(same_bits(krama::download(exec, t.ref()), want, b, e));

    const auto s = put(mine);
    auto pending = comm.start_reduce_scatter(exec, s.ref(), partition, what);
    if (pending) pending->poll();
    if (pending) pending->wait();
    CHECK(same_bits(krama::download(exec, s.ref()), want, b, e));
    comm.allgather(exec, s.ref(), partition, what);
    CHECK(same_bits(krama::download(exec, s.ref()), want));

    const auto all = put(mine);
    comm.allreduce(exec, all.ref(), what);
    CHECK(same_bits(krama::download(exec, all.ref()), want));
  }
  CHECK(faults().open_groups == 0);
}

}  // namespace

TEST_CASE("device comm: sums, f32", "[doors]") { sums<float>(); }
TEST_CASE("device comm: sums, f64", "[doors]") { sums<double>(); }
TEST_CASE("device comm: sums, i64", "[doors]") { sums<std::int64_t>(); }

TEST_CASE("device comm: bytes of any type", "[doors]") {
  auto comm = make();
  const GuardedDevice exec;
  for (const auto& partition : cuts(comm.size())) {
    const auto n = static_cast<std::size_t>(partition.size());
    std::vector<krama::bf16> mine(n), want(n);
    for (std::size_t i = 0; i < n; ++i) {
      int owner = 0;
      while (static_cast<std::int64_t>(i) >= partition.end(owner)) ++owner;
      mine[i].bits = static_cast<std::uint16_t>(1000 * comm.rank() + static_cast<int>(i));
      want[i].bits = static_cast<std::uint16_t>(1000 * owner + static_cast<int>(i));
    }
    const auto t = put(mine);
    comm.allgather(exec, t.ref(), partition, "gather" + std::to_string(partition.cuts()[1]));
    CHECK(same_bits(krama::download(exec, t.ref()), want));
  }
  for (int root = 0; root < comm.size(); ++root) {
    const auto t = put(std::vector<std::int32_t>{comm.rank(), 5});
    comm.broadcast(exec, t.ref(), root, "from " + std::to_string(root));
    CHECK(krama::download(exec, t.ref()) == std::vector<std::int32_t>{root, 5});
  }
}

TEST_CASE("device comm: tensors of the host and scalars travel by the control communicator",
          "[doors]") {
  auto comm = make();
  const int before = faults().operations;
  auto v = values_of<float>(comm.rank(), 300);
  comm.allreduce(Exec{}, ref(v), "host");
  CHECK(same_bits(v, sums_in_rank_order<float>(comm.size(), 300)));
  CHECK(faults().operations == before);
  std::int64_t one = 1;
  comm.sum(std::span(&one, 1), "count");
  CHECK(one == comm.size());
  CHECK_THAT(comm.transport(), ContainsSubstring("FakeCL, control: mpi"));
}

TEST_CASE("device comm: duplicates and parts are communicators of their own", "[doors]") {
  auto comm = make();
  const GuardedDevice exec;
  auto copy = comm.duplicate("copy");
  auto reversed = comm.split(0, -comm.rank(), "reversed");
  REQUIRE(all_ok(world(), reversed.has_value()));
  CHECK(reversed->rank() == comm.size() - 1 - comm.rank());
  for (FakeComm* c : {&comm, &copy, &*reversed}) {
    const auto t = put(std::vector<std::int32_t>{comm.rank()});
    c->broadcast(exec, t.ref(), 0, "who");
    CHECK(krama::download(exec, t.ref())[0] == (c == &*reversed ? comm.size() - 1 : 0));
  }
}

TEST_CASE("device comm: a library that answers later", "[doors]") {
  faults() = {};
  faults().slow = 50;
  FakeComm comm(world(), GuardedDevice{}, "slow");
  const auto t = put(values_of<float>(comm.rank(), 100));
  comm.allreduce(GuardedDevice{}, t.ref(), "w");
  CHECK(same_bits(krama::download(GuardedDevice{}, t.ref()),
                  sums_in_rank_order<float>(comm.size(), 100)));
}

TEST_CASE("device comm: ranks that want unlike things get the same error", "[doors]") {
  auto comm = make();
  if (comm.size() == 1) return;
  const GuardedDevice exec;
  const auto t = put(std::vector<float>(comm.rank() == 0 ? 10 : 20));
  CHECK_THROWS_WITH(comm.allreduce(exec, t.ref(), "w"),
                    ContainsSubstring("rank 0: reduce_scatter \"w\" of 10 f32 elements") &&
                        ContainsSubstring("rank 1: reduce_scatter \"w\" of 20 f32 elements"));
  CHECK_THROWS_WITH(comm.broadcast(exec, t.ref(), comm.size(), "w"), ContainsSubstring("root"));
  CHECK_THROWS_WITH(comm.allgather(exec, t.ref(), Partition::even(9, comm.size()), "w"),
                    ContainsSubstring("does not fit"));
  // Nothing has moved: the communicator is as good as before.
  const auto same = put(std::vector<float>(30, 1.0F));
  comm.allreduce(exec, same.ref(), "w");
  CHECK(krama::download(exec, same.ref())[29] == static_cast<float>(comm.size()));
}

TEST_CASE("device comm: a rank that is gone ends the wait as an error", "[doors]") {
  auto comm = make();
  if (comm.size() == 1) return;
  const GuardedDevice exec;
  const auto t = put(std::vector<float>(30, 1.0F));
  auto pending = comm.start_reduce_scatter(exec, t.ref(), Partition::even(30, comm.size()), "w");
  faults().hangs = true;
  faults().state = Faults::Result::remote;  // the library notices
  pending->poll();
  CHECK_THROWS_WITH(pending->wait(), ContainsSubstring("reduce_scatter \"w\"") &&
                                         ContainsSubstring("FakeCL failed on rank") &&
                                         ContainsSubstring("a peer has gone"));
  CHECK(faults().aborts == 1);
  CHECK_THROWS_WITH(comm.broadcast(exec, t.ref(), 0, "v"), ContainsSubstring("broke earlier"));
  CHECK_THROWS_WITH(pending->wait(), ContainsSubstring("broke earlier"));
  CHECK(faults().aborts == 1);
}

TEST_CASE("device comm: a wait that never ends is an error too", "[doors]") {
  auto comm = make(0.1);
  if (comm.size() == 1) return;
  const GuardedDevice exec;
  const auto t = put(std::vector<float>(30, 1.0F));
  faults().hangs = true;  // the library notices nothing
  CHECK_THROWS_WITH(comm.allreduce(exec, t.ref(), "w"),
                    ContainsSubstring("stalled: reduce_scatter \"w\" on communicator \"fake\""));
  CHECK(faults().aborts == 1);
}

TEST_CASE("device comm: a call that the library refuses", "[doors]") {
  auto comm = make();
  if (comm.size() == 1) return;
  const GuardedDevice exec;
  const auto t = put(std::vector<float>(30, 1.0F));
  faults().call = Faults::Result::invalid;
  CHECK_THROWS_WITH(comm.allreduce(exec, t.ref(), "w"), ContainsSubstring("invalid argument"));
  CHECK(faults().open_groups == 0);
  CHECK(faults().aborts == 1);
}

TEST_CASE("device comm: a library that cannot start", "[doors]") {
  if (world().size() == 1) return;
  faults() = {};
  faults().make_id = Faults::Result::invalid;
  CHECK_THROWS_WITH(FakeComm(world(), GuardedDevice{}, "fake"),
                    ContainsSubstring("FakeCL cannot start on rank 0: invalid argument"));
}

TEST_CASE("device comm: the end", "[doors]") {
  {
    auto comm = make();
    const FakeComm shared = comm;
  }
  CHECK(faults().ends == (world().size() > 1 ? 1 : 0));
  CHECK(faults().aborts == 0);
}
