// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Jobs in which only some ranks have device memory compute the bits of a job in which none has,
// wherever the arithmetic is Krama's own and not a vendor's: sums, norms, updates and replicas.
#include <krama/testing/guarded/device.hpp>

#include <krama/optim/adam.hpp>
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "comm/comm_test.hpp"
#include "program/problems.hpp"

using namespace krama::test;
using namespace program_test;
using Guarded = krama::testing::GuardedDevice::device_type;
using OpenMp = Kokkos::OpenMP::device_type;

namespace {

/// What three steps leave on this rank when the gradients are given.
struct Updated {
  std::vector<float> values;
  std::vector<std::vector<float>> states;
  std::vector<double> norms;
  bool operator==(const Updated&) const = default;
};

template <class D, class Optimizer>
Updated update(const std::string& name, const Optimizer& optimizer, double clip) {
  using M = krama::mem_of<D>;
  const krama::testing::DelayedWork delayed;
  auto comm = world().duplicate(name);
  const krama::exec_of<D> exec;
  const auto model = Gpt::model<D, float>();
  auto store = same_store<D, float>(model);
  const int me = comm.rank();
  // The second rank owns three times as much as the first.
  krama::OwnerUpdate<D, float, Optimizer, krama::MpiComm> owner(
      exec, store, optimizer, comm, krama::make_shard(store, 700, {1.0, 3.0}, {}, me, comm.size()),
      clip, {});
  Updated u;
  for (int step = 0; step < 3; ++step) {
    const auto mine = values_of<float>(me + 2 * step, store.size());
    owner.begin_step(1, static_cast<std::uint32_t>(step), true);
    // No fence: the sums have to wait for the gradients.
    const krama::Tensor<float, 1, M> there(exec, "test", {store.size()});
    krama::upload(exec, there.ref(), std::span<const float>(mine));
    krama::kernels::add(exec, store.grads(), there.ref(), there.ref());
    const int buckets = owner.shard().bucket_count();
    for (int k = 0; k < buckets; ++k) owner.reduce(k, 0);
    for (int k = 0; k < buckets; ++k) owner.await_reduce(k);
    CHECK(owner.agree({0.5 + me, 3.0 + me, 0, owner.squared_norm(), false}).empty());
    for (int k = 0; k < buckets; ++k) owner.update(k, 0.01);
    for (int k = 0; k < buckets; ++k) owner.gather(k);
    owner.end_step();
    u.norms.push_back(owner.outcome().grad_norm);
    krama::check_same_values(comm, exec, store, step + 1);
  }
  u.values = krama::download(exec, store.values());
  for (std::size_t s = 0; s < Optimizer::states; ++s) {
    u.states.push_back(krama::download(exec, owner.state(static_cast<int>(s))));
  }
  return u;
}

}  // namespace

TEMPLATE_TEST_CASE("guarded: any ranks with device memory, the same sums, moments and replicas",
                   "[guarded]", krama::optim::Sgd, krama::optim::Adam, krama::optim::AdamW) {
  TestType optimizer;
  if constexpr (std::is_same_v<TestType, krama::optim::Sgd>) optimizer.momentum = 0.9;
  for (const double clip : {0.0, 0.5}) {
    const Updated hosts = update<OpenMp>("hosts", optimizer, clip);
    CHECK(hosts.norms[0] > 1.0);
    // Both, the first, the second.
    for (const int which : {0, 1, 2}) {
      INFO("devices: " << which << ", clipping " << clip);
      const bool device = which == 0 || world().rank() == which - 1;
      CHECK(hosts == (device ? update<Guarded>("mixed", optimizer, clip)
                             : update<OpenMp>("mixed", optimizer, clip)));
    }
  }
}
