// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/topology.hpp>

#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using Catch::Matchers::ContainsSubstring;
using namespace krama::test;

TEST_CASE("topology: every rank has the same one, by one message", "[comm]") {
  auto comm = world().duplicate("topology");
  for (const bool named : {false, true}) {
    const std::string name = named ? "g" + std::to_string(comm.rank() % 2) : "";
    const auto before = comm.traffic().control_calls;
    const auto t = krama::make_topology(comm, name);
    CHECK(comm.traffic().control_calls == before + 1);
    CHECK(t.ranks() == comm.size());
    CHECK(t.hosts() == 1);
    CHECK(t.groups() == (named ? std::min(2, comm.size()) : 1));
    CHECK(t.group_of(comm.rank()) == (named ? comm.rank() % 2 : 0));
    std::string all = to_string(t);
    for (int r = 0; r < t.ranks(); ++r) all += "\n" + to_text(t.facts(r));
    for (const auto& theirs : comm.gather_text(all, "topologies")) CHECK(theirs == all);
  }
}

TEST_CASE("topology: a wrong name on one rank is the same error on all", "[comm]") {
  auto comm = world().duplicate("topology");
  const int last = comm.size() - 1;
  std::string error;
  try {
    static_cast<void>(krama::make_topology(comm, comm.rank() == last ? "no: good" : ""));
  } catch (const krama::Error& e) {
    error = e.what();
  }
  CHECK_THAT(error, ContainsSubstring("KRAMA_GROUP of rank " + std::to_string(last)));
  for (const auto& theirs : comm.gather_text(error, "errors")) CHECK(theirs == error);
}

TEST_CASE("topology: of a part of the job", "[comm]") {
  auto comm = world().duplicate("topology");
  auto half = comm.split(comm.rank() % 2, -comm.rank(), "half");
  CHECK(half.has_value());
  if (!half) return;
  const auto t = krama::make_topology(*half, "half" + std::to_string(comm.rank() % 2));
  CHECK(t.ranks() == half->size());
  CHECK(t.groups() == 1);
  CHECK(t.group_name(0) == "half" + std::to_string(comm.rank() % 2));
}
