// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/self.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <vector>

using Catch::Matchers::ContainsSubstring;

TEST_CASE("self: every operation works on one rank (C03)", "[comm]") {
  krama::SelfComm comm;
  const Kokkos::DefaultHostExecutionSpace exec;
  std::vector<float> v{1, 2, 3};
  const krama::TensorRef<float, 1, Kokkos::HostSpace> ref(v.data(), {3});
  const auto whole = krama::Partition::even(3, 1);
  comm.reduce_scatter(exec, ref, whole, "v");
  comm.allgather(exec, ref, whole, "v");
  comm.allreduce(exec, ref, "v");
  comm.broadcast(exec, ref, 0, "v");
  CHECK(v == std::vector<float>{1, 2, 3});
  CHECK(comm.gather_text("me", "names") == std::vector<std::string>{"me"});
  CHECK(comm.split(3, 0, "part").has_value());
  CHECK_FALSE(comm.split(std::nullopt, 0, "none").has_value());
  CHECK(comm.traffic().bytes_sent == 0);
  CHECK(comm.traffic().calls == 4);

  auto channel = comm.channel("loop");
  std::vector<float> w{0, 0, 0};
  channel.send(exec, ref, 0, "v");
  channel.receive(exec, krama::TensorRef<float, 1, Kokkos::HostSpace>(w.data(), {3}), 0, "v");
  CHECK(w == v);
}

TEST_CASE("self: wrong arguments", "[comm]") {
  krama::SelfComm comm;
  const Kokkos::DefaultHostExecutionSpace exec;
  std::vector<float> v{1, 2, 3};
  const krama::TensorRef<float, 1, Kokkos::HostSpace> ref(v.data(), {3});
  CHECK_THROWS_WITH(comm.reduce_scatter(exec, ref, krama::Partition::even(3, 2), "weights"),
                    ContainsSubstring("\"weights\"") && ContainsSubstring("2 parts"));
  CHECK_THROWS_WITH(comm.broadcast(exec, ref, 1, "weights"), ContainsSubstring("rank 1 of 1"));
  auto channel = comm.channel("loop");
  CHECK_THROWS_WITH(channel.receive(exec, ref, 0, "v"), ContainsSubstring("nothing was sent"));
}
