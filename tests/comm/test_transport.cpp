// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/transport.hpp>

#include <krama/comm/find_form.hpp>
#include <krama/comm/measure_links.hpp>
#include <krama/comm/topology.hpp>
#include <krama/comm/traffic_report.hpp>

#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <string>

using Catch::Matchers::ContainsSubstring;
using krama::Transport;
using namespace krama::test;

TEST_CASE("transport: words and back", "[comm]") {
  for (const auto t :
       {Transport::automatic, Transport::staged, Transport::direct, Transport::require_direct}) {
    CHECK(krama::parse_transport(name_of(t), "--transport") == t);
  }
  CHECK(krama::parse_transport("require=staged", "x") == Transport::staged);
  for (const char* bad : {"", "Direct", "require=", "require=automatic", "direct "}) {
    CHECK_THROWS_WITH(krama::parse_transport(bad, "--transport"),
                      ContainsSubstring("--transport is \"" + std::string(bad) + "\"; wanted"));
  }
}

TEST_CASE("transport: what is wanted in the host's memory is had", "[comm]") {
  auto options = world().options();
  const std::pair<Transport, const char*> all[] = {{Transport::automatic, "mpi, direct"},
                                                   {Transport::direct, "mpi, direct"},
                                                   {Transport::require_direct, "mpi, direct"},
                                                   {Transport::staged, "mpi, staged"}};
  for (const auto& [wanted, found] : all) {
    options.transport = wanted;
    auto comm = world().duplicate("transport", options);
    CHECK(comm.transport_wanted() == wanted);
    CHECK(comm.transport() == found);
    CHECK(krama::describe_transport<Host>(comm) == found);
    std::vector<float> v(100, 1.0F);
    comm.allreduce(Exec(), ref(v), "v");
    CHECK(v[99] == static_cast<float>(comm.size()));
    const bool staged = wanted == Transport::staged && comm.size() > 1;
    CHECK(comm.traffic().bytes_staged == (staged ? 800 : 0));
  }
}

TEST_CASE("transport: what a program may ask", "[comm]") {
  auto& world = krama::test::world();
  // groups and links begins
  const krama::Topology topology = krama::make_topology(world);
  const krama::LinkTable links = krama::measure_links(world, topology);
  const std::string text = to_string(topology) + "\n" + describe(links, topology);

  krama::MpiOptions options = world.options();
  options.transport = krama::parse_transport("require=direct", "--transport");
  krama::MpiComm direct = world.duplicate("direct", options);
  const std::string how = krama::describe_transport(direct);  // "mpi, direct" on hosts
  // groups and links ends
  CHECK(how == "mpi, direct");
  CHECK_THAT(text, ContainsSubstring("1 group: cpu (rank"));
}

TEST_CASE("transport: how sums travel, for a communicator of one's own", "[comm]") {
  auto comm = world().duplicate("own");
  const krama::Topology topology =
      krama::make_topology(comm, "g" + std::to_string(comm.rank() % 2));
  // form begins
  const krama::FormFound found = krama::find_form(comm, topology);
  comm.set_form(found.form);  // all ranks found the same
  // form ends
  CHECK(comm.form() == found.form);
}

TEST_CASE("transport: a wire format for a sum of one's own", "[comm]") {
  const Exec exec;
  auto comm = world().duplicate("rounded");
  const auto partition = krama::Partition::even(1000, comm.size());
  std::vector<float> ones(1000, 1.0F);
  const auto gradients = ref(ones);
  // wire format begins
  std::vector<float> residual(1000, 0.0F);  // lives as long as the sums do
  const krama::WireEncoding wire{krama::WireFormat::bf16, residual, {}, 0};
  auto sum = comm.start_reduce_scatter(exec, gradients, partition, "gradients", wire);
  if (sum) sum->wait();
  // wire format ends
  const auto mine = partition.begin(comm.rank());
  if (partition.count(comm.rank()) > 0) {
    CHECK(ones[static_cast<std::size_t>(mine)] == static_cast<float>(comm.size()));
  }
}

TEST_CASE("transport: a job with a refused one is refused at the start", "[comm]") {
  krama::RankFacts good;
  good.transport = "mpi, direct";
  krama::RankFacts bad;
  bad.transport = "mpi, refused: require=direct in Cuda: reason";
  check_transports(krama::Topology({good, good}));
  CHECK_THROWS_WITH(check_transports(krama::Topology({good, bad})),
                    ContainsSubstring("rank 1: mpi, refused: require=direct in Cuda: reason"));
}

TEST_CASE("transport: bytes are counted between groups", "[comm]") {
  auto comm = world().duplicate("traffic");
  const auto t = krama::make_topology(comm, "g" + std::to_string(comm.rank() % 2));
  CHECK_THROWS_WITH(krama::gather_traffic(comm, krama::Topology({t.facts(0), {}, {}, {}, {}})),
                    ContainsSubstring("a topology of 5 ranks"));
  const auto before = krama::gather_traffic(comm, t);
  const std::int64_t n = 12000;
  auto v = values_of<float>(comm.rank(), n);
  comm.broadcast(Exec(), ref(v), 0, "v");
  const auto after = krama::gather_traffic(comm, t);
  std::int64_t sent = 0;
  for (int a = 0; a < t.groups(); ++a) {
    for (int b = 0; b < t.groups(); ++b) sent += after.between(a, b) - before.between(a, b);
    CHECK(after.bytes_staged[static_cast<std::size_t>(a)] == 0);
  }
  CHECK(sent >= (comm.size() - 1) * n * 4);
  CHECK(sent < (comm.size() - 1) * n * 4 + 4096 * comm.size());  // and small control messages
  if (comm.size() == 2) {
    CHECK(after.between(0, 1) - before.between(0, 1) >= n * 4);
    CHECK(after.between(1, 0) - before.between(1, 0) < n * 4);
    CHECK(after.between(0, 0) == 0);
  }
  const auto text = describe(after, t);
  for (const auto& theirs : comm.gather_text(text, "reports")) CHECK(theirs == text);
  CHECK((text.find("g0 -> g0: ") != std::string::npos) == (comm.size() > 2));
  CHECK_THAT(text, ContainsSubstring("g0: 0.0 MiB through staging buffers"));
}
