// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Training over a DeviceComm: gradients and parameters travel by the library's stand-in, agreements
// over MPI, and all ranks end with the bits that MPI alone gives them.
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <string>
#include <vector>

#include "comm/comm_test.hpp"
#include "doors/fake_library.hpp"
#include "program/problems.hpp"

using namespace krama::test;
using namespace program_test;
using doors_test::FakeComm;
using doors_test::faults;
using Guarded = krama::testing::GuardedDevice::device_type;

namespace {

/// Parameters after four steps.
template <class Comm>
std::vector<float> train(Comm comm, bool overlap) {
  const krama::testing::DelayedWork delayed;
  const krama::exec_of<Guarded> exec;
  const auto data = Gpt::data();
  const std::int64_t first = data.samples * comm.rank() / comm.size();
  const std::int64_t mine = data.samples * (comm.rank() + 1) / comm.size() - first;
  const auto model = Gpt::model<Guarded, float>();
  auto store = same_store<Guarded, float>(model);
  krama::check_same_model(comm, store);
  krama::Executor<Guarded, float, krama::nn::CrossEntropy, krama::optim::AdamW, Comm> executor(
      exec, model, store, {}, {}, comm,
      {.micro_batch = 4, .clip_norm = 1.0, .bucket_elements = 700, .overlap = overlap});
  for (std::uint32_t step = 0; step < 4; ++step) {
    const auto o = executor.step(step, 1, 0.01, first, mine, feed(exec, data, first, mine, 4));
    CHECK(o.finite);
  }
  krama::check_same_values(comm, exec, store, 4);
  return krama::download(exec, store.values());
}

}  // namespace

TEST_CASE("device comm: training gives the bits of MPI alone", "[doors]") {
  const bool overlap = GENERATE(false, true);
  faults() = {};
  const auto by_library = train(FakeComm(world(), {}, "training"), overlap);
  if (world().size() > 1) CHECK(faults().operations > 0);
  CHECK(same_bits(by_library, train(world().duplicate("training"), overlap)));
}
