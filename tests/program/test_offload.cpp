// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/self.hpp>
#include <krama/plan/baselines.hpp>
#include <krama/plan/budget.hpp>

#include <catch2/catch_all.hpp>
#include <random>

#include "program/problems.hpp"

using namespace program_test;
using D = TestDevice;
using krama::plan::Offload;
using krama::plan::Residencies;
using R = krama::plan::Residency;

namespace {

using Exec =
    krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::SelfComm>;

constexpr int layers = 6;
auto small_gpt() {
  return krama::models::gpt<D, float>({.vocabulary = 17,
                                       .context = 12,
                                       .features = 16,
                                       .layers = layers,
                                       .heads = 2,
                                       .dropout = 0.2});
}

/// Parameters after some steps under a memory plan.
std::vector<float> train_under(const krama::nn::Model<D, float>& model, const Data& data,
                               const Offload& offload, krama::SwapOptions swap = {}) {
  const krama::exec_of<D> exec;
  auto store = same_store<D, float>(model);
  Exec executor(exec, model, store, {}, {}, krama::SelfComm("test"),
                {.micro_batch = 4, .offload = offload, .swap = std::move(swap)});
  for (std::uint32_t s = 0; s < 2; ++s) {
    executor.step(s, 1, 0.01, 0, data.samples, feed(exec, data, 0, data.samples, 4));
  }
  return krama::download(exec, store.values());
}

krama::plan::StepCosts costs_of(const krama::nn::Model<D, float>& model, double part) {
  auto costs = krama::plan::byte_costs(krama::step_sizes(model, 4));
  std::int64_t most = 0;
  for (const auto& b : costs.blocks) most = std::max(most, b.saved);
  costs.budget =
      most + static_cast<std::int64_t>(part * static_cast<double>(costs.saved_bytes() - most));
  return costs;
}

}  // namespace

TEST_CASE("offload: any plan gives the same bits as keeping everything", "[program]") {
  const auto data = Gpt::data();
  const auto model = small_gpt();
  const auto kept = train_under(model, data, {});
  std::mt19937 random(4);
  int tried = 0;
  // Every block alike first, then at random; from the least memory to plenty.
  for (int round = 0; round < 30; ++round) {
    const auto costs = costs_of(model, std::uniform_real_distribution<double>(0, 1.1)(random));
    Residencies what;
    for (int b = 0; b < model.block_count(); ++b) {
      auto r = static_cast<R>(round < 4 ? round : static_cast<int>(random() % 5));
      if (r == R::chain && (b == 0 || !is_recomputed(what.back()))) r = R::swap;
      what.push_back(r);
    }
    if (!krama::plan::StepSimulator(costs).run(what).fits) continue;
    ++tried;
    krama::SwapOptions swap;
    if (round % 3 == 0) swap.link = {.latency = 2e-4, .out_bandwidth = 1e8, .in_bandwidth = 2e8};
    INFO("round " << round);
    CHECK(same_bits(kept, train_under(model, data, Offload::of(costs, what), swap)));
  }
  CHECK(tried > 10);
}

TEST_CASE("offload: swapped and recomputed blocks need less memory", "[program]") {
  const auto model = small_gpt();
  const auto sizes = krama::step_sizes(model, 4);
  const auto n = static_cast<std::size_t>(model.block_count());
  const auto peak = [&](R r, double part) {
    const auto costs = costs_of(model, part);
    krama::plan::MemoryPlan p;
    p.what.assign(n, r);
    const auto m = krama::plan::place_plan(costs, sizes, p).memory;
    CHECK(static_cast<double>(m.peak) <= 1.1 * static_cast<double>(m.largest_live));
    return m.peak;
  };
  const auto all = peak(R::keep, 1);
  CHECK(peak(R::swap, 0.01) < all / 2);
  CHECK(peak(R::recompute, 0.5) < all);
}

namespace {
// A disk that fails at the n-th write or read.
int calls_left = 0;
ssize_t failing_write(int fd, const void* data, std::size_t bytes, off_t at) {
  if (calls_left-- > 0) return ::pwrite(fd, data, bytes, at);
  errno = ENOSPC;
  return -1;
}
ssize_t failing_read(int fd, void* data, std::size_t bytes, off_t at) {
  if (calls_left-- > 0) return ::pread(fd, data, bytes, at);
  errno = EIO;
  return -1;
}
int no_room(int, off_t, off_t) { return ENOSPC; }
constexpr bool swaps_to_a_file = krama::SwapLink<D>::host_memory;
}  // namespace

TEST_CASE("offload: O04 a step whose swap file fails changes nothing, and the next one works",
          "[program]") {
  if (!swaps_to_a_file) SKIP("devices swap to the host's memory");
  const krama::exec_of<D> exec;
  const auto data = Gpt::data();
  const auto model = small_gpt();
  const auto offload = Offload::of(
      costs_of(model, 0.1), Residencies(static_cast<std::size_t>(model.block_count()), R::swap));
  const auto wanted = train_under(model, data, offload);
  for (const bool reading : {false, true}) {
    for (const int when : {0, 1, 5, 11}) {
      auto store = same_store<D, float>(model);
      krama::SwapOptions swap;
      if (reading) swap.calls.pread = failing_read;
      if (!reading) swap.calls.pwrite = failing_write;
      Exec executor(exec, model, store, {}, {}, krama::SelfComm("test"),
                    {.micro_batch = 4, .offload = offload, .swap = swap});
      const auto before = krama::download(exec, store.values());
      const auto step = [&](std::uint32_t s) {
        executor.step(s, 1, 0.01, 0, data.samples, feed(exec, data, 0, data.samples, 4));
      };
      calls_left = when;
      CHECK_THROWS_WITH(step(0), Catch::Matchers::ContainsSubstring("rank 0") &&
                                     Catch::Matchers::ContainsSubstring("swap file"));
      CHECK(same_bits(before, krama::download(exec, store.values())));
      CHECK(executor.updates() == 0);
      // The disk is well again.
      calls_left = 1 << 30;
      step(0);
      step(1);
      CHECK(same_bits(wanted, krama::download(exec, store.values())));
    }
  }
}

TEST_CASE("offload: a far tier without room, or without a folder, is refused before step 1",
          "[program]") {
  if (!swaps_to_a_file) SKIP("devices swap to the host's memory");
  const auto data = Gpt::data();
  const auto model = small_gpt();
  const auto offload = Offload::of(
      costs_of(model, 0.1), Residencies(static_cast<std::size_t>(model.block_count()), R::swap));
  krama::SwapOptions full;
  full.calls.reserve = no_room;
  CHECK_THROWS_WITH(train_under(model, data, offload, full),
                    Catch::Matchers::ContainsSubstring("free some space"));
  CHECK_THROWS_WITH(train_under(model, data, offload, {.folder = "/nowhere/at/all"}),
                    Catch::Matchers::ContainsSubstring("/nowhere/at/all"));
  CHECK(same_bits(train_under(model, data, {}),
                  train_under(model, data, offload, {.folder = "/tmp"})));
}
