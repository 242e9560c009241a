// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A program that ends in the way its first argument says; the tests look at how the job ends.
#include <krama/runtime/run.hpp>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Host = Kokkos::HostSpace;

/// Steps of training, as far as communication is concerned.
void steps(krama::World& world, int n) {
  const Kokkos::DefaultHostExecutionSpace exec;
  std::vector<float> v(1000, 1.0F);
  for (int i = 0; i < n; ++i) {
    world.allreduce(exec, krama::TensorRef<float, 1, Host>(v.data(), {1000}), "layer.weight");
  }
}

int program(krama::RunContext& context) {
  krama::World& world = context.world;
  const std::string mode = context.argc > 1 ? context.argv[1] : "good";
  const bool last = world.rank() == world.size() - 1;
  steps(world, 3);
  if (mode == "good") return 0;
  if (mode == "slow-good") {
    if (last) std::this_thread::sleep_for(std::chrono::seconds(3));
    return 0;
  }
  if (mode == "return") return last ? 3 : 0;
  if (mode == "return-all") return 2;
  if (mode == "throw-all") throw krama::Error("no file \"corpus.txt\"");
  if (mode == "disagree") {
    std::vector<float> v(last ? 20 : 10);
    const auto n = static_cast<std::int64_t>(v.size());
    world.allreduce(Kokkos::DefaultHostExecutionSpace(),
                    krama::TensorRef<float, 1, Host>(v.data(), {n}), "head.weight");
  }
  if (last) {
    if (mode == "throw") throw krama::Error("the sky is falling");
    if (mode == "throw-int") throw 7;  // NOLINT: users' code may
    if (mode == "return-early") return 3;
    if (mode == "kill") std::raise(SIGKILL);
    if (mode == "segv") std::raise(SIGSEGV);
    if (mode == "_exit") _exit(0);
    if (mode == "stall") std::this_thread::sleep_for(std::chrono::seconds(60));
  }
  steps(world, 1000000000);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return krama::run(argc, argv, program); }
