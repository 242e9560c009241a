// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace krama::test;

namespace {
template <class T>
T byte_pattern(int owner, std::int64_t i) {
  T v;
  auto* p = reinterpret_cast<unsigned char*>(&v);
  for (std::size_t b = 0; b < sizeof(T); ++b) {
    p[b] = static_cast<unsigned char>(static_cast<std::size_t>(owner * 37 + 11) +
                                      static_cast<std::size_t>(i) * 3 + b);
  }
  return v;
}
}  // namespace

TEMPLATE_TEST_CASE("allgather: every piece has its owner's bytes", "[comm]", float, double,
                   krama::bf16, std::uint8_t) {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    for (const auto n : sizes(way.largest)) {
      INFO("elements: " << n);
      for (const auto& partition : partitions(n, comm.size())) {
        std::vector<TestType> mine(static_cast<std::size_t>(n));
        std::vector<TestType> wanted(static_cast<std::size_t>(n));
        for (int p = 0; p < comm.size(); ++p) {
          for (auto i = partition.begin(p); i < partition.end(p); ++i) {
            wanted[static_cast<std::size_t>(i)] = byte_pattern<TestType>(p, i);
            if (p == comm.rank()) mine[static_cast<std::size_t>(i)] = byte_pattern<TestType>(p, i);
          }
        }
        const OnDevice v(exec, mine);
        comm.allgather(exec, v.ref(), partition, "v " + std::to_string(n));
        CHECK(same_bits(v.values(), wanted));
      }
    }
  }
}

TEST_CASE("broadcast: root's bytes, from every root (C08)", "[comm]") {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    for (const auto n : sizes(way.largest)) {
      for (int root = 0; root < comm.size(); ++root) {
        INFO("elements: " << n << ", root: " << root);
        const OnDevice v(exec, values_of<float>(comm.rank(), n));
        comm.broadcast(exec, v.ref(), root, "v " + std::to_string(n) + " " + std::to_string(root));
        CHECK(same_bits(v.values(), values_of<float>(root, n)));
      }
    }
  }
  const OnDevice v(exec, std::vector<float>(3));
  auto comm = world().duplicate("no such root");
  CHECK_THROWS_AS(comm.broadcast(exec, v.ref(), comm.size(), "v"), krama::Error);
  CHECK_THROWS_AS(comm.broadcast(exec, v.ref(), -1, "v"), krama::Error);
}
