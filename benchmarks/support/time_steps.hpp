// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/comm/self.hpp>
#include <krama/nn/describe.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/program/executor.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// Whole training steps of one model on one rank, for comparisons of processes in turns.
namespace krama::bench {

struct StepProblem {
  krama::nn::Model<krama::DefaultDevice, float> model;
  std::int64_t batch = 0;
  std::int64_t classes = 0;
};

/// Speed of one large product through Krama's door (KRAMA_GEMM chooses the library behind it).
inline void time_sgemm() {
  using D = krama::DefaultDevice;
  const krama::exec_of<D> exec;
  using M = krama::mem_of<D>;
  constexpr std::int64_t n = 2048;
  const krama::Tensor<float, 2, M> a(exec, "a", {n, n});
  const krama::Tensor<float, 2, M> b(exec, "b", {n, n});
  const krama::Tensor<float, 2, M> c(exec, "c", {n, n});
  krama::fill(exec, a.ref(), 0.5F);
  krama::fill(exec, b.ref(), 0.25F);
  double best = 1e30;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    krama::kernels::gemm(exec, krama::kernels::Op::none, krama::kernels::Op::none, 1.0F, a.cref(),
                         b.cref(), 0.0F, c.ref());
    krama::kokkos_ext::fence(exec, "bench");
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::printf("{\"gflops\":%.1f}\n", 2e-9 * n * n * n / best);
}

/// Milliseconds of a step in one JSON line; with `profile` also where they went.
inline void time_steps(std::string_view name, const StepProblem& p, int steps, bool profile) {
  using D = krama::DefaultDevice;
  using Executor =
      krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::SelfComm>;
  const krama::exec_of<D> exec;
  auto store = p.model.make_store(exec, 1);
  Executor executor(exec, p.model, store, {}, {.weight_decay = 0.1}, krama::SelfComm("bench"),
                    {.micro_batch = p.batch});
  // Samples are made once, as the peer's are; every step copies them in.
  std::vector<std::int32_t> ids;
  std::vector<float> x;
  std::vector<std::int32_t> y;
  std::vector<float> w;
  const auto feed = [&](int, const auto& to) {
    const bool indices = to.input.dtype == krama::DType::i32;
    if (w.empty()) {
      for (std::int64_t i = 0; i < to.input.shape.size(); ++i) {
        const std::int64_t v = i * 7919 % 251;
        if (indices) ids.push_back(static_cast<std::int32_t>(v));
        if (!indices) x.push_back(static_cast<float>(v) / 251.0F);
      }
      for (std::int64_t i = 0; i < to.targets.size(); ++i) {
        y.push_back(static_cast<std::int32_t>(i * 104729 % p.classes));
      }
      w.assign(static_cast<std::size_t>(to.weights.size()), 1.0F);
    }
    if (indices) {
      krama::upload(exec, to.input.template as<std::int32_t, 1>(),
                    std::span<const std::int32_t>(ids));
    } else {
      krama::upload(exec, to.input.template as<float, 1>(), std::span<const float>(x));
    }
    krama::upload(exec, to.targets, std::span<const std::int32_t>(y));
    krama::upload(exec, to.weights, std::span<const float>(w));
  };
  std::uint32_t number = 0;
  for (int i = 0; i < 3; ++i) executor.step(number++, 1, 1e-3, 0, p.batch, feed);
  std::vector<double> ms;
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    loss = executor.step(number++, 1, 1e-3, 0, p.batch, feed).loss();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                     .count());
  }
  std::sort(ms.begin(), ms.end());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"form\":\"krama\",\"config\":\"%s\",\"median_ms\":%.4f,\"min_ms\":%.4f,\"loss\":%.5f,"
      "\"peak_mib\":%.1f,\"forward_gflop\":%.4f}\n",
      std::string(name).c_str(), ms[ms.size() / 2], ms.front(), loss,
      static_cast<double>(usage.ru_maxrss) / 1024.0,
      1e-9 * static_cast<double>(krama::nn::flops(p.model, p.batch)));
  if (!profile) return;
  executor.trace().start(100000);
  for (int i = 0; i < 5; ++i) executor.step(number++, 1, 1e-3, 0, p.batch, feed);
  std::map<std::string, double> where;
  for (const auto& e : executor.trace().events()) {
    std::string key(krama::plan::name_of(e.instr.op));
    if (e.instr.op == krama::plan::Op::forward || e.instr.op == krama::plan::Op::backward) {
      key += " " + p.model.block_name(e.instr.index);
    }
    where[key] += (e.end_us - e.begin_us) / 5e3;
  }
  for (const auto& [key, time] : where) std::printf("  %-28s %9.4f ms\n", key.c_str(), time);
}

/// The program of a bench: `bench [NAME [STEPS [profile]]]`; "sgemm" as NAME times one product.
/// `make(name)` gives the StepProblem of that name.
template <class Make>
int step_bench(int argc, char** argv, const char* first_name, int first_steps, Make&& make) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const std::string name = argc > 1 ? argv[1] : first_name;
  const int steps = argc > 2 ? std::atoi(argv[2]) : first_steps;
  if (name == "sgemm") {
    time_sgemm();
  } else {
    time_steps(name, make(name), steps, argc > 3 && std::string_view(argv[3]) == "profile");
  }
  return 0;
}

}  // namespace krama::bench
