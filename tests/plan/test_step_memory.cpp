// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/plain.hpp>
#include <krama/plan/recompute.hpp>
#include <krama/plan/step_memory.hpp>

#include <catch2/catch_all.hpp>

using namespace krama::plan;

namespace {
/// `n` equal blocks in a row: value i is read by block i, which writes value i + 1.
StepSizes chain_sizes(int n, std::int64_t value, std::int64_t stash) {
  StepSizes s;
  for (int i = 0; i <= n; ++i) s.values.push_back({value, i > 0});
  for (int i = 0; i < n; ++i) s.blocks.push_back({stash, 64, true, false, {i}, i + 1});
  s.input = 0;
  s.output = n;
  return s;
}
}  // namespace

TEST_CASE("step memory: recomputing blocks lowers the peak, the more the lower", "[plan]") {
  constexpr int n = 8;
  const StepSizes sizes = chain_sizes(n, 640, 6400);
  const Program plain = plain_step(n, 1, 1);
  std::int64_t before = plan_step_memory(plain, sizes).peak;
  CHECK(before >= n * 6400);
  for (const int chosen : {2, 4, 8}) {
    std::vector<bool> which(n, false);
    for (int b = 0; b < chosen; ++b) which[static_cast<std::size_t>(b)] = true;
    const StepMemory m = plan_step_memory(with_recompute(plain, which), sizes);
    CHECK(m.peak < before);
    CHECK(m.peak >= m.largest_live);
    before = m.peak;
  }
  // All recomputed: one stash at a time, and every block's input.
  CHECK(before <= 6400 + (n + 1) * 640 + 3 * 640 + 128);
}

TEST_CASE("step memory: within 1.1 times the largest live set for a transformer's sizes",
          "[plan]") {
  StepSizes s = chain_sizes(12, 1 << 20, 14 << 20);
  s.blocks.front().stash = 0;
  s.values.back().bytes = 50 << 20;
  const StepMemory m = plan_step_memory(plain_step(12, 3, 4), s);
  CHECK(static_cast<double>(m.peak) <= 1.1 * static_cast<double>(m.largest_live));
}

TEST_CASE("step memory: micro-batches use the same memory again", "[plan]") {
  const StepSizes sizes = chain_sizes(4, 640, 6400);
  CHECK(plan_step_memory(plain_step(4, 1, 1), sizes).peak ==
        plan_step_memory(plain_step(4, 7, 1), sizes).peak);
}

TEST_CASE("step memory: a gradient that is joined has a place of its own", "[plan]") {
  StepSizes sizes = chain_sizes(2, 640, 0);
  sizes.blocks.push_back({0, 0, false, false, {1, 2}, 3});
  sizes.values.push_back({640, true});
  sizes.output = 3;
  const StepMemory m = plan_step_memory(plain_step(3, 1, 1), sizes);
  CHECK(m.fan_out != m.gradient[1]);
  CHECK(m.fan_out != m.gradient[2]);
  CHECK(m.fan_out != m.gradient[3]);
}
