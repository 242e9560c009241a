// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <krama/plan/budget.hpp>
#include <krama/program/executor.hpp>

namespace krama {

/// Latency and bandwidth of the link to the far tier, by transfers of a little and of much of `near`,
/// whose contents are of no use to anybody. Waits.
template <Device D>
plan::LinkCost measure_link(const exec_of<D>& exec, std::byte* near, std::int64_t bytes,
                            const SwapOptions& options) {
  plan::LinkCost cost;
  if (bytes <= 0) return cost;
  const std::int64_t much = std::min<std::int64_t>(bytes, std::int64_t{32} << 20);
  const std::int64_t little = std::min<std::int64_t>(much, 4096);
  SwapLink<D> link(exec, much, options);
  const auto seconds = [&](std::int64_t n, bool out) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 4; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      link.wait(out ? link.out({{near, 0, n}}) : link.in({{near, 0, n}}));
      kokkos_ext::fence(exec, "krama::program::measure_link");  // comes after the transfer
      best = std::min(
          best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  const double out_least = seconds(little, true);
  const double in_least = seconds(little, false);
  cost.latency = std::max(out_least, in_least);
  const auto bandwidth = [&](double most, double least) {
    return static_cast<double>(much - little) / std::max(most - least, 1e-9);
  };
  if (much > little) {
    cost.out_bandwidth = bandwidth(seconds(much, true), out_least);
    cost.in_bandwidth = bandwidth(seconds(much, false), in_least);
  }
  return cost;
}

/// The link that an executor swaps over, measured with its own memory, between steps. Waits; not
/// collective. \throws OutOfMemory, TierError
template <Device D, Scalar T, class Loss, class Optimizer, class Comm>
plan::LinkCost measure_link(const exec_of<D>& exec,
                            Executor<D, T, Loss, Optimizer, Comm>& executor) {
  auto& values = executor.values();
  values.begin(values.batch());
  return measure_link<D>(exec, values.memory_at(0), values.bytes(), executor.options().swap);
}

/// What planners need to know of blocks, measured: `run` makes gradients of at least one whole
/// micro-batch, is called a few times, and may take part in collectives. The shortest time of each
/// block counts. A rank that gets no micro-batch measures nothing: its times are 0. The link is left
/// to `measure_link`.
template <Device D, Scalar T, class Loss, class Optimizer, class Comm, class Run>
plan::StepCosts measure_blocks(Executor<D, T, Loss, Optimizer, Comm>& executor, const Run& run,
                               int times = 3) {
  plan::StepCosts costs = plan::byte_costs(executor.sizes());
  std::vector<double> forward(costs.blocks.size(), 0);
  std::vector<double> backward(costs.blocks.size(), 0);
  double loss = 0;
  const auto least = [](double& of, double us) { of = of > 0 ? std::min(of, us) : us; };
  constexpr std::size_t events = 1 << 20;
  run();                                                             // warms up
  const TraceRecorder wanted = std::exchange(executor.trace(), {});  // somebody else's
  for (int i = 0; i < times; ++i) {
    executor.trace().start(events);
    run();
    for (const auto& e : executor.trace().take()) {
      if (e.instr.micro != 0) continue;  // the first one is whole
      const auto b = static_cast<std::size_t>(std::max(e.instr.index, 0));
      const double us = e.end_us - e.begin_us;
      if (e.instr.op == plan::Op::forward) least(forward[b], us);
      if (e.instr.op == plan::Op::backward) least(backward[b], us);
      if (e.instr.op == plan::Op::loss) least(loss, us);
    }
  }
  executor.trace() = wanted;
  for (std::size_t b = 0; b < costs.blocks.size(); ++b) {
    costs.blocks[b].forward = forward[b] * 1e-6;
    costs.blocks[b].backward = backward[b] * 1e-6;
  }
  // The loss comes between forward and backward, where transfers may run beside it.
  if (!costs.blocks.empty()) costs.blocks.back().backward += loss * 1e-6;
  return costs;
}

/// Both, for one rank that trains alone.
template <Device D, Scalar T, class Loss, class Optimizer, class Comm, class Run>
plan::StepCosts measure_step(const exec_of<D>& exec,
                             Executor<D, T, Loss, Optimizer, Comm>& executor, const Run& run,
                             int times = 3) {
  plan::StepCosts costs = measure_blocks(executor, run, times);
  costs.link = measure_link(exec, executor);
  return costs;
}

}  // namespace krama
