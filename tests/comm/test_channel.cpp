// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("channel: everybody sends first, then receives, at any size (P02)", "[comm]") {
  const Exec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    auto channel = comm.channel("ring");
    const int next = (comm.rank() + 1) % comm.size();
    const int before = (comm.rank() + comm.size() - 1) % comm.size();
    for (const auto n : sizes(way.largest)) {
      auto mine = values_of<float>(comm.rank(), n);
      std::vector<float> theirs(static_cast<std::size_t>(n));
      channel.send(exec, ref(mine), next, "v");
      channel.receive(exec, ref(theirs), before, "v");
      CHECK(same_bits(theirs, values_of<float>(before, n)));
    }
  }
}

TEST_CASE("channel: 32 MiB both ways (P02)", "[comm]") {
  if (world().size() != 2) return;
  const Exec exec;
  auto channel = world().channel("large");
  const std::int64_t n = 8 << 20;
  auto mine = values_of<float>(world().rank(), n);
  std::vector<float> theirs(static_cast<std::size_t>(n));
  channel.send(exec, ref(mine), 1 - world().rank(), "v");
  channel.receive(exec, ref(theirs), 1 - world().rank(), "v");
  CHECK(same_bits(theirs, values_of<float>(1 - world().rank(), n)));
}

TEST_CASE("channel: messages keep their order, channels do not mix (P03)", "[comm]") {
  const Exec exec;
  auto comm = world().duplicate("order");
  auto data = comm.channel("data");
  auto labels = comm.channel("labels");
  const int next = (comm.rank() + 1) % comm.size();
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  for (int k = 0; k < 20; ++k) {
    std::vector<float> x(static_cast<std::size_t>(k), static_cast<float>(k));
    std::vector<std::int64_t> y{k * 1000 + comm.rank()};
    labels.send(exec, ref(y), next, "label");
    data.send(exec, ref(x), next, "x");
  }
  for (int k = 0; k < 20; ++k) {
    std::vector<float> x(static_cast<std::size_t>(k));
    data.receive(exec, ref(x), before, "x");
    CHECK(x == std::vector<float>(static_cast<std::size_t>(k), static_cast<float>(k)));
  }
  for (int k = 0; k < 20; ++k) {
    std::vector<std::int64_t> y{0};
    labels.receive(exec, ref(y), before, "label");
    CHECK(y[0] == k * 1000 + before);
  }
}

TEST_CASE("channel: a message of another size is an error", "[comm]") {
  const Exec exec;
  auto comm = world().duplicate("sizes");
  auto channel = comm.channel("sizes");
  std::vector<float> three(3);
  std::vector<float> four(4);
  channel.send(exec, ref(three), comm.rank(), "v");
  CHECK_THROWS_AS(channel.send(exec, ref(three), comm.size(), "v"), krama::Error);
  CHECK_THROWS_WITH(channel.receive(exec, ref(four), comm.rank(), "v"),
                    ContainsSubstring("wants 16 bytes") && ContainsSubstring("sent 12"));
  CHECK_THROWS_WITH(channel.send(exec, ref(three), comm.rank(), "v"), ContainsSubstring("broke"));
}
