// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Runs as one job of two executables, which stand for two vendors.
#include <krama/comm/measure_links.hpp>
#include <krama/comm/topology.hpp>

#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace krama::test;

TEST_CASE("mixed: two executables make two groups where they ask for it", "[comm]") {
  auto comm = world().duplicate("topology");
  const std::string side = KRAMA_BUILD_NAME;
  const auto t = krama::make_topology(comm, side);
  REQUIRE(t.groups() == 2);
  CHECK(t.group_name(0) == "v3");  // the executable of rank 0
  CHECK(t.group_name(1) == "native");
  CHECK(t.group_name(t.group_of(comm.rank())) == side);
  CHECK(t.border_ranks() == std::vector<int>{0, t.members(1).front()});
  std::string all = to_string(t);
  for (int r = 0; r < t.ranks(); ++r) {
    const auto& f = t.facts(r);
    CHECK(f.build.starts_with(t.group_name(t.group_of(r)) + " "));
    all += "\n" + to_text(f);
  }
  const auto links = krama::measure_links(comm, t, {.seconds = 0.01});
  CHECK_FALSE(links.link(0, 1) == krama::assumed_link);
  CHECK_FALSE(links.link(1, 0) == krama::assumed_link);
  all += "\n" + links.text() + describe(links, t);
  for (const auto& theirs : comm.gather_text(all, "topologies")) CHECK(theirs == all);

  // One vendor, and no name: one group.
  CHECK(krama::make_topology(comm, "").groups() == 1);
}
