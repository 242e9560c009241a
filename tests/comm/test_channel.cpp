// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("channel: everybody sends first, then receives, at any size (P02)", "[comm]") {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    auto channel = comm.channel("ring");
    const int next = (comm.rank() + 1) % comm.size();
    const int before = (comm.rank() + comm.size() - 1) % comm.size();
    for (const auto n : sizes(way.largest)) {
      const OnDevice mine(exec, values_of<float>(comm.rank(), n));
      const OnDevice theirs(exec, std::vector<float>(static_cast<std::size_t>(n)));
      channel.send(exec, mine.ref(), next, "v");
      channel.receive(exec, theirs.ref(), before, "v");
      CHECK(same_bits(theirs.values(), values_of<float>(before, n)));
    }
  }
}

TEST_CASE("channel: 32 MiB both ways (P02)", "[comm]") {
  if (world().size() != 2) return;
  const DeviceExec exec;
  auto channel = world().channel("large");
  const std::int64_t n = 8 << 20;
  const OnDevice mine(exec, values_of<float>(world().rank(), n));
  const OnDevice theirs(exec, std::vector<float>(static_cast<std::size_t>(n)));
  channel.send(exec, mine.ref(), 1 - world().rank(), "v");
  channel.receive(exec, theirs.ref(), 1 - world().rank(), "v");
  CHECK(same_bits(theirs.values(), values_of<float>(1 - world().rank(), n)));
}

TEST_CASE("channel: messages keep their order, channels do not mix (P03)", "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("order");
  auto data = comm.channel("data");
  auto labels = comm.channel("labels");
  const int next = (comm.rank() + 1) % comm.size();
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  for (int k = 0; k < 20; ++k) {
    const OnDevice x(exec, std::vector<float>(static_cast<std::size_t>(k), static_cast<float>(k)));
    const OnDevice y(exec, std::vector<std::int64_t>{k * 1000 + comm.rank()});
    labels.send(exec, y.ref(), next, "label");
    data.send(exec, x.ref(), next, "x");
  }
  for (int k = 0; k < 20; ++k) {
    const OnDevice x(exec, std::vector<float>(static_cast<std::size_t>(k)));
    data.receive(exec, x.ref(), before, "x");
    CHECK(x.values() == std::vector<float>(static_cast<std::size_t>(k), static_cast<float>(k)));
  }
  for (int k = 0; k < 20; ++k) {
    const OnDevice y(exec, std::vector<std::int64_t>{0});
    labels.receive(exec, y.ref(), before, "label");
    CHECK(y.values()[0] == k * 1000 + before);
  }
}

TEST_CASE("channel: a message of another size is an error", "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("sizes");
  auto channel = comm.channel("sizes");
  const OnDevice three(exec, std::vector<float>(3));
  const OnDevice four(exec, std::vector<float>(4));
  channel.send(exec, three.ref(), comm.rank(), "v");
  CHECK_THROWS_AS(channel.send(exec, three.ref(), comm.size(), "v"), krama::Error);
  CHECK_THROWS_WITH(channel.receive(exec, four.ref(), comm.rank(), "v"),
                    ContainsSubstring("wants 16 bytes") && ContainsSubstring("sent 12"));
  CHECK_THROWS_WITH(channel.send(exec, three.ref(), comm.rank(), "v"), ContainsSubstring("broke"));
}
