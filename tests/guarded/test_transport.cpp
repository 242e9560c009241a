// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Ranks whose tensors lie in memory that MPI cannot read, and jobs in which only some are like that.
#include <krama/testing/guarded/device.hpp>

#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "comm/comm_test.hpp"
#include "program/problems.hpp"

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;
using krama::Partition;
using krama::Tensor;
using krama::TensorRef;
using Guarded = krama::testing::GuardedDevice::device_type;
using OpenMp = Kokkos::OpenMP::device_type;

namespace {

/// Runs `body` with this rank's device: 0: both ranks guarded, 1: only rank 0, 2: only rank 1.
template <class Body>
void with_device(int which, const Body& body) {
  const krama::testing::DelayedWork delayed;
  if (which == 0 || world().rank() == which - 1) {
    body(Guarded{});
  } else {
    body(OpenMp{});
  }
}

template <class D>
struct Doubled {
  krama::exec_of<D> exec;
  Tensor<float, 1, krama::mem_of<D>> t;
  explicit Doubled(const std::vector<float>& v)
      : t(exec, "test", {static_cast<std::int64_t>(v.size())}) {
    // No fence after the last kernel: the communicator has to wait for it.
    krama::upload(exec, t.ref(), std::span<const float>(v));
    krama::kernels::add(exec, t.ref(), t.ref(), t.ref());
  }
  [[nodiscard]] std::vector<float> values() const { return krama::download(exec, t.ref()); }
};

std::vector<float> twice(std::vector<float> v) {
  for (auto& x : v) x += x;
  return v;
}

}  // namespace

TEST_CASE("guarded: operations give the host's bits", "[guarded]") {
  const int which = GENERATE(0, 1, 2);
  const std::int64_t n = GENERATE(as<std::int64_t>{}, 1, 700, 70000);
  krama::MpiOptions options;
  options.watchdog_seconds = 60;
  options.transport = krama::Transport::staged;
  auto comm = world().duplicate("guarded", options);
  const int me = comm.rank();
  const auto mine = values_of<float>(me, n);
  const auto sums = twice(sums_in_rank_order<float>(comm.size(), n));
  with_device(which, [&]<class D>(D) {
    Doubled<D> a(mine);
    comm.allreduce(a.exec, a.t.ref(), "allreduce");
    CHECK(same_bits(a.values(), sums));

    const auto partition = Partition::by_weight(n, std::vector<double>{1.0, 3.0});
    Doubled<D> b(mine);
    comm.reduce_scatter(b.exec, b.t.ref(), partition, "reduce_scatter");
    comm.allgather(b.exec, b.t.ref(), partition, "allgather");
    CHECK(same_bits(b.values(), sums));

    Doubled<D> c(mine);
    comm.broadcast(c.exec, c.t.ref(), 1, "broadcast");
    CHECK(same_bits(c.values(), twice(values_of<float>(1, n))));

    auto channel = comm.channel("channel");
    Doubled<D> d(mine), e(mine);
    channel.send(d.exec, d.t.ref(), 1 - me, "message");
    krama::fill(d.exec, d.t.ref(), 0.0F);
    channel.receive(e.exec, e.t.ref(), 1 - me, "message");
    CHECK(same_bits(e.values(), twice(values_of<float>(1 - me, n))));
  });
}

TEST_CASE("guarded: what cannot be direct is staged and said, or refused", "[guarded]") {
  using Space = Guarded::memory_space;
  krama::MpiOptions options;
  options.watchdog_seconds = 60;
  Doubled<Guarded> a(values_of<float>(world().rank(), 100));
  const auto sums = twice(sums_in_rank_order<float>(world().size(), 100));
  for (const auto wanted : {krama::Transport::automatic, krama::Transport::direct}) {
    options.transport = wanted;
    auto comm = world().duplicate("staged", options);
    Doubled<Guarded> b(values_of<float>(comm.rank(), 100));
    comm.allreduce(b.exec, b.t.ref(), "allreduce");
    CHECK(same_bits(b.values(), sums));
    CHECK(comm.traffic().bytes_staged == 800);
    CHECK(krama::describe_transport<Space>(comm) ==
          (wanted == krama::Transport::direct
               ? "mpi, staged, not direct (GuardedSpace: the MPI library is not known to read it)"
               : "mpi, staged"));
    CHECK(comm.transport() == "mpi, direct");  // the host's memory
  }

  options.transport = krama::Transport::require_direct;
  auto direct = world().duplicate("must", options);
  CHECK_THAT(krama::describe_transport<Space>(direct),
             ContainsSubstring("refused: require=direct in GuardedSpace: the MPI library"));
  CHECK_THROWS_WITH(
      direct.allreduce(a.exec, a.t.ref(), "gradients"),
      ContainsSubstring("\"gradients\" lies in GuardedSpace: the MPI library is not") &&
          ContainsSubstring("communicator \"must\" is require=direct"));
}

TEST_CASE("guarded: a device and a host train one model", "[guarded]") {
  using namespace program_test;
  const int which = GENERATE(0, 1, 2);
  auto comm = world().duplicate("training");
  const auto data = Gpt::data();
  const std::int64_t first = comm.rank() == 0 ? 0 : 4;
  const std::int64_t mine = comm.rank() == 0 ? 4 : data.samples - 4;
  with_device(which, [&]<class D>(D) {
    const krama::exec_of<D> exec;
    const auto model = Gpt::model<D, float>();
    auto store = same_store<D, float>(model);
    krama::check_same_model(comm, store);
    krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm>
        executor(exec, model, store, {}, {}, comm,
                 {.micro_batch = 4, .clip_norm = 1.0, .bucket_elements = 700});
    double loss[2] = {};
    for (std::uint32_t step = 0; step < 4; ++step) {
      const auto o = executor.step(step, 1, 0.01, first, mine, feed(exec, data, first, mine, 4));
      CHECK(o.finite);
      loss[step == 0 ? 0 : 1] = o.loss();
      krama::check_same_values(comm, exec, store, step + 1);
    }
    CHECK(loss[1] < loss[0]);
  });
}
