// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/plan/budget.hpp>

#include <array>
#include <catch2/catch_all.hpp>
#include <cstring>

#include "program/problems.hpp"

using namespace program_test;
using D = TestDevice;
using krama::plan::Offload;
using R = krama::plan::Residency;

namespace {
using Exec =
    krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm>;

bool disk_is_full = false;
ssize_t full_disk(int fd, const void* data, std::size_t bytes, off_t at) {
  if (!disk_is_full) return ::pwrite(fd, data, bytes, at);
  errno = ENOSPC;
  return -1;
}

/// A plan of its own for each rank: another mixture of decisions, and another budget.
Offload plan_of(const krama::nn::Model<D, float>& model, int rank) {
  auto costs = krama::plan::byte_costs(krama::step_sizes(model, 3));
  costs.budget = costs.saved_bytes() * (2 + rank) / 6;
  std::vector<R> what;
  for (int b = 0; b < model.block_count(); ++b) {
    what.push_back(b % 3 == rank % 3 ? R::recompute : b % 4 == 3 ? R::swap_input : R::swap);
  }
  return Offload::of(costs, what);
}
}  // namespace

TEST_CASE("offload: several ranks with plans of their own give the bits of keeping everything",
          "[program]") {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = Gpt::data();
  const auto model = krama::models::gpt<D, float>(
      {.vocabulary = 17, .context = 12, .features = 16, .layers = 4, .heads = 2, .dropout = 0.1});
  const std::int64_t share = data.samples / world.size();
  const std::int64_t first = share * world.rank();
  const auto train = [&](const Offload& offload, bool breaks) {
    auto store = same_store<D, float>(model);
    krama::SwapOptions swap;
    if (breaks && world.rank() == world.size() - 1) swap.calls.pwrite = full_disk;
    Exec executor(exec, model, store, {}, {}, world,
                  {.micro_batch = 3, .offload = offload, .swap = swap});
    const auto step = [&](std::uint32_t s) {
      executor.step(s, 1, 0.01, first, share, feed(exec, data, first, share, 3));
    };
    step(0);
    if (breaks) {
      const auto before = krama::download(exec, store.values());
      disk_is_full = true;
      CHECK_THROWS_WITH(
          step(1), Catch::Matchers::ContainsSubstring("rank " + std::to_string(world.size() - 1)));
      disk_is_full = false;
      CHECK(before == krama::download(exec, store.values()));
    }
    step(1);
    return krama::download(exec, store.values());
  };
  const auto kept = train({}, false);
  CHECK(kept == train(plan_of(model, world.rank()), false));
  // O04: one rank's disk fills up in mid-step; all stop, nothing has changed, and all can go on.
  // The last rank has a disk unless it is a device.
  std::array<std::int64_t, 1> disks{0};
  if (world.rank() == world.size() - 1) disks[0] = krama::SwapLink<D>::host_memory ? 1 : 0;
  world.sum(disks, "disks of the last rank");
  if (disks[0] == 1) CHECK(kept == train(plan_of(model, world.rank()), true));
}
