// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/topology.hpp>

#include <krama/comm/self.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <utility>
#include <vector>

using Catch::Matchers::ContainsSubstring;
using krama::RankFacts;
using krama::Topology;
using Ranks = std::vector<int>;
using Pair = std::pair<int, int>;

namespace {
RankFacts rank(std::string host, std::string vendor, std::string group = "") {
  RankFacts f;
  f.host = std::move(host);
  f.vendor = std::move(vendor);
  f.group = std::move(group);
  return f;
}

/// Two hosts, three vendors, in no order.
Topology job() {
  return Topology({rank("h1", "nvidia"), rank("h1", "cpu"), rank("h2", "amd"), rank("h1", "nvidia"),
                   rank("h2", "cpu"), rank("h2", "amd")});
}
}  // namespace

TEST_CASE("topology: groups are the ranks of one vendor, by their first rank", "[comm]") {
  const auto t = job();
  CHECK(t.ranks() == 6);
  REQUIRE(t.groups() == 3);
  CHECK(t.members(0) == Ranks{0, 3});
  CHECK(t.members(1) == Ranks{1, 4});
  CHECK(t.members(2) == Ranks{2, 5});
  CHECK(t.group_numbers() == Ranks{0, 1, 2, 0, 1, 2});
  CHECK(t.group_of(4) == 1);
  CHECK(t.group_name(2) == "amd");
  CHECK(t.vendor_of(2) == "amd");
  CHECK(t.facts(2) == rank("h2", "amd"));
  REQUIRE(t.hosts() == 2);
  CHECK(t.on_host(0) == Ranks{0, 1, 3});
  CHECK(t.on_host(1) == Ranks{2, 4, 5});
  CHECK(t.host_of(5) == 1);
  CHECK(to_string(t) ==
        "3 groups: nvidia (ranks 0, 3), cpu (ranks 1, 4), amd (ranks 2, 5); 2 hosts");
}

TEST_CASE("topology: links are measured between ranks of one host where there are such", "[comm]") {
  const auto t = job();
  CHECK(t.link_pair(0, 1) == Pair{0, 1});
  CHECK(t.link_pair(1, 0) == Pair{1, 0});
  CHECK(t.link_pair(1, 2) == Pair{4, 2});
  CHECK(t.link_pair(2, 1) == Pair{2, 4});
  CHECK(t.link_pair(0, 2) == Pair{0, 2});  // no host has both
  CHECK(t.link_pair(2, 2) == Pair{2, 5});
  CHECK(t.border_ranks() == Ranks{0, 1, 2, 4});
}

TEST_CASE("topology: one rank is one group without a border", "[comm]") {
  const Topology t({rank("h", "cpu")});
  CHECK(t.groups() == 1);
  CHECK(t.hosts() == 1);
  CHECK(t.link_pair(0, 0) == Pair{0, 0});
  CHECK(t.border_ranks().empty());
  CHECK(to_string(t) == "1 group: cpu (rank 0); 1 host");
}

TEST_CASE("topology: a name that a rank asks for goes before its vendor", "[comm]") {
  const Topology t({rank("h", "cpu", "left"), rank("h", "cpu", "right"),
                    rank("h", "nvidia", "left"), rank("h", "cpu"), rank("h", "nvidia", "cpu")});
  REQUIRE(t.groups() == 3);
  CHECK(t.members(0) == Ranks{0, 2});
  CHECK(t.members(1) == Ranks{1});
  CHECK(t.members(2) == Ranks{3, 4});  // by a name that is also a vendor
  CHECK(t.group_name(0) == "left");
  CHECK(t.vendor_of(0).empty());
  CHECK(t.vendor_of(1) == "cpu");
}

TEST_CASE("topology: what makes no sense is refused", "[comm]") {
  CHECK_THROWS_WITH(Topology({}), ContainsSubstring("no ranks"));
  for (const std::string name :
       {"two words", "a:b", "a,b", "a=b", "line\nend", "\xc3\xa4", "between"}) {
    CAPTURE(name);
    CHECK_THROWS_WITH(Topology({rank("h", "cpu"), rank("h", "cpu", name)}),
                      ContainsSubstring("KRAMA_GROUP of rank 1 is"));
  }
  CHECK_THROWS_AS(Topology({rank("h", "cpu", std::string(41, 'a'))}), krama::Error);
  const auto t = job();
  CHECK_THROWS_WITH(t.group_of(6), ContainsSubstring("rank 6 of 6"));
  CHECK_THROWS_WITH(t.members(-1), ContainsSubstring("group -1 of 3"));
  CHECK_THROWS_WITH(t.link_pair(0, 3), ContainsSubstring("group 3 of 3"));
}

TEST_CASE("topology: facts survive as text", "[comm]") {
  const RankFacts f{.host = "node-7",
                    .vendor = "nvidia",
                    .architecture = "sm_90",
                    .memory_bytes = 150754820096,
                    .back_end = "Cuda",
                    .build = "nvcc 12.4 avx2+fma unoptimised",
                    .transport = "mpi, staged",
                    .group = "",
                    .cores = "0,1,9",
                    .threads = 3,
                    .optimized = false};
  CHECK(krama::facts_from_text(to_text(f), 0) == f);
  CHECK(krama::facts_from_text(to_text(RankFacts{}), 0) == RankFacts{});
  RankFacts bad = f;
  bad.host = "a\tb\nc";
  CHECK(krama::facts_from_text(to_text(bad), 0).host == "a b c");

  CHECK_THROWS_WITH(krama::facts_from_text("x\ty", 4), ContainsSubstring("facts of rank 4: 2 fie"));
  auto text = to_text(f);
  text.replace(text.find("150754820096"), 4, "1e+4");
  CHECK_THROWS_WITH(krama::facts_from_text(text, 1), ContainsSubstring("is no number"));
}

TEST_CASE("topology: this rank has a device, memory and cores", "[comm]") {
  krama::SelfComm self;
  const auto t = krama::make_topology(self, "mine");
  REQUIRE(t.ranks() == 1);
  CHECK(t.group_name(0) == "mine");
  const auto& f = t.facts(0);
  CHECK(f.vendor == "cpu");
  CHECK_FALSE(f.architecture.empty());
  CHECK(f.memory_bytes > 0);
  CHECK(f.back_end == Kokkos::DefaultExecutionSpace::name());
  CHECK(f.threads == krama::host_threads());
  CHECK_FALSE(f.cores.empty());
  CHECK(f.transport == "self");
}
