// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/measure_links.hpp>

#include <krama/comm/self.hpp>

#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

using Catch::Matchers::ContainsSubstring;
using namespace krama::test;

namespace {
/// A channel whose messages take a while, asleep: their latency before they are sent, their bytes
/// before they are received.
class SlowChannel {
 public:
  SlowChannel(krama::MpiChannel channel, krama::Link to_higher, krama::Link to_lower, int me)
      : channel_(std::move(channel)), to_higher_(to_higher), to_lower_(to_lower), me_(me) {}
  template <class E, class Ref>
  void send(const E& exec, Ref source, int to, std::string_view what) {
    sleep(link(me_, to).latency_seconds);
    channel_.send(exec, source, to, what);
  }
  template <class E, class Ref>
  void receive(const E& exec, Ref target, int from, std::string_view what) {
    const auto bytes = static_cast<std::size_t>(target.size()) * sizeof(*target.data());
    sleep(static_cast<double>(bytes) / link(from, me_).bytes_per_second);
    channel_.receive(exec, target, from, what);
  }

 private:
  static void sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  [[nodiscard]] const krama::Link& link(int from, int to) const {
    return from < to ? to_higher_ : to_lower_;
  }
  krama::MpiChannel channel_;
  krama::Link to_higher_, to_lower_;
  int me_;
};

krama::Topology alternating(krama::MpiComm& comm) {
  return krama::make_topology(comm, "g" + std::to_string(comm.rank() % 2));
}
}  // namespace

TEST_CASE("measure_links: every rank has the same table, each pair measured", "[comm]") {
  auto comm = world().duplicate("links");
  const auto t = alternating(comm);
  krama::LinkMeasurement options;
  options.seconds = 0.005;
  const auto links = krama::measure_links(comm, t, options);
  REQUIRE(links.groups() == t.groups());
  for (const auto& theirs : comm.gather_text(links.text(), "links")) CHECK(theirs == links.text());
  for (int a = 0; a < t.groups(); ++a) {
    for (int b = 0; b < t.groups(); ++b) {
      const auto [p, q] = t.link_pair(a, b);
      CAPTURE(a, b);
      CHECK((links.link(a, b) == krama::assumed_link) == (p == q));
      CHECK(links.link(a, b).latency_seconds == links.link(b, a).latency_seconds);
    }
  }
  const auto text = describe(links, t);
  CHECK_THAT(text, ContainsSubstring("g0 -> g0: "));
  CHECK((text.find("(assumed)") != std::string::npos) == (comm.size() < 4));
}

TEST_CASE("measure_links: what a slow link is like is found out, by direction", "[comm]") {
  auto comm = world().duplicate("slow link");
  if (comm.size() < 2) return;
  auto data = comm.channel("data");
  auto control = comm.channel("control");
  // Times are bounds from below: sleeping never takes less than was asked for.
  const krama::Link up{2e-3, 2e7};
  const krama::Link down{2e-3, 5e6};
  std::array<double, 3> found{};
  if (comm.rank() < 2) {
    SlowChannel slow_data(data, up, down, comm.rank());
    SlowChannel slow_control(control, up, down, comm.rank());
    const bool first = comm.rank() == 0;
    found = krama::comm::detail::measure_pair(
        krama::comm::detail::PairTest(slow_data, slow_control, 1 - comm.rank(), first), 0.2,
        {.round_trips = 3});
    CHECK(found[0] >= 2e-3);
    CHECK(found[1] <= 2 * 2e7);
    CHECK(found[2] <= 2 * 5e6);
  }
  // Both ends know all of it.
  std::array<double, 3> all = comm.rank() < 2 ? found : std::array<double, 3>{};
  comm.sum_in_rank_order(all, "sum");
  if (comm.rank() < 2) {
    for (std::size_t i = 0; i < 3; ++i) CHECK(all[i] == found[i] + found[i]);
  }
}

TEST_CASE("measure_links: wrong arguments are the same error on every rank", "[comm]") {
  auto comm = world().duplicate("links");
  const auto t = alternating(comm);
  krama::SelfComm self;
  CHECK(krama::measure_links(self, krama::make_topology(self)) == krama::LinkTable(1));
  if (comm.size() > 1) {
    CHECK_THROWS_WITH(krama::measure_links(comm, krama::make_topology(self)),
                      ContainsSubstring("a topology of 1 ranks"));
  }
  CHECK_THROWS_WITH(krama::measure_links(comm, t, {.probe_bytes = 12}),
                    ContainsSubstring("whole 8 bytes"));
  CHECK_THROWS_WITH(krama::measure_links(comm, t, {.seconds = 0}),
                    ContainsSubstring("seconds above 0"));
  CHECK_THROWS_WITH(describe(krama::LinkTable(3), t), ContainsSubstring("links of 3 groups"));
}
