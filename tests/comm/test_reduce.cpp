// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <krama/kokkos_ext/seam.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <limits>

using namespace krama::test;

TEMPLATE_TEST_CASE("reduce_scatter: own piece is the sum in rank order", "[comm]", float, double,
                   std::int64_t) {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    const int me = comm.rank();
    for (const auto n : sizes(way.largest)) {
      INFO("elements: " << n);
      const auto wanted = sums_in_rank_order<TestType>(comm.size(), n);
      for (const auto& partition : partitions(n, comm.size())) {
        const OnDevice v(exec, values_of<TestType>(me, n));
        comm.reduce_scatter(exec, v.ref(), partition, "v " + std::to_string(n));
        CHECK(same_bits(v.values(), wanted, partition.begin(me), partition.end(me)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("allreduce: the same bits on all ranks, the sum in rank order (C08, C09)",
                   "[comm]", float, double, std::int64_t) {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    for (const auto n : sizes(way.largest)) {
      INFO("elements: " << n);
      const OnDevice v(exec, values_of<TestType>(comm.rank(), n));
      comm.allreduce(exec, v.ref(), "v " + std::to_string(n));
      CHECK(same_bits(v.values(), sums_in_rank_order<TestType>(comm.size(), n)));
    }
  }
}

TEST_CASE("allreduce: infinities and NaN reach every rank with the same bits", "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("specials");
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> mine_here(1000, comm.rank() == 0 ? inf : 1.0F);
  mine_here[5] = comm.rank() == 0 ? inf : -inf;
  mine_here[7] = std::numeric_limits<float>::denorm_min();
  const OnDevice there(exec, mine_here);
  comm.allreduce(exec, there.ref(), "v");
  const auto v = there.values();
  CHECK(v[0] == inf);
  if (comm.size() > 1) CHECK(v[5] != v[5]);
  CHECK(v[7] == static_cast<float>(comm.size()) * std::numeric_limits<float>::denorm_min());
  const std::string_view mine(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
  for (const auto& theirs : comm.gather_text(mine, "bits")) CHECK(theirs == mine);
}

TEST_CASE("allreduce: starts after the work in the instance and fences that instance (C11)",
          "[comm]") {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    auto comm = world().duplicate(way.name, way.options);
    const OnDevice v(exec, values_of<float>(comm.rank(), 100));
    comm.allreduce(exec, v.ref(), "v");
    const auto before = krama::kokkos_ext::seam_counts();
    comm.allreduce(exec, v.ref(), "v");
    const auto after = krama::kokkos_ext::seam_counts();
    const bool staged =
        comm.size() > 1 && krama::choose_transport<DeviceMemory>(way.options.transport).staged;
    CHECK(after.fences - before.fences == (staged ? 2 : 1));
    CHECK(after.copies - before.copies == (staged ? 2 : 0));
    CHECK((comm.traffic().bytes_staged > 0) == staged);
  }
}

TEST_CASE("reduce_scatter: a partition that does not fit is refused", "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("misfit");
  const OnDevice v(exec, std::vector<float>(10));
  CHECK_THROWS_AS(comm.reduce_scatter(exec, v.ref(), krama::Partition::even(11, comm.size()), "v"),
                  krama::Error);
  CHECK_THROWS_AS(
      comm.reduce_scatter(exec, v.ref(), krama::Partition::even(10, comm.size() + 1), "v"),
      krama::Error);
}

TEST_CASE("start_reduce_scatter: several at once, waited for in any order, the same bits",
          "[comm]") {
  const DeviceExec exec;
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    const int me = comm.rank();
    constexpr std::size_t buckets = 5;
    std::vector<OnDevice<float>> v;
    std::vector<krama::Partition> cuts;
    std::vector<krama::Pending> sums;
    v.reserve(buckets);  // the copies to the device read what must not move
    for (std::size_t k = 0; k < buckets; ++k) {
      v.emplace_back(exec, values_of<float>(me, std::min<std::int64_t>(way.largest, 40000) -
                                                    static_cast<std::int64_t>(k) * 100));
      cuts.push_back(krama::Partition::even(v[k].ref().size(), comm.size()));
    }
    for (std::size_t k = 0; k < buckets; ++k) {
      sums.push_back(comm.start_reduce_scatter(exec, v[k].ref(), cuts[k], "bucket"));
      for (auto& sum : sums) {
        if (sum) sum->poll();
      }
    }
    comm.barrier("between");  // other calls may come in between
    for (const std::size_t k : {3U, 0U, 4U, 1U, 2U}) {
      if (sums[k]) sums[k]->wait();
      CHECK(same_bits(v[k].values(), sums_in_rank_order<float>(comm.size(), cuts[k].size()),
                      cuts[k].begin(me), cuts[k].end(me)));
    }
  }
}

TEST_CASE("start_reduce_scatter: forgetting to wait is an error, not a mix-up of messages",
          "[comm]") {
  if (world().size() == 1) SKIP("nothing is under way on one rank");
  const DeviceExec exec;
  auto comm = world().duplicate("forgotten");
  const OnDevice a(exec, std::vector<float>(1000, 1.0F));
  const OnDevice b(exec, std::vector<float>(1000, 1.0F));
  const auto cuts = krama::Partition::even(1000, comm.size());
  auto sum = comm.start_reduce_scatter(exec, a.ref(), cuts, "a");
  int calls = 0;
  try {
    for (; calls < 100; ++calls) comm.reduce_scatter(exec, b.ref(), cuts, "b");
  } catch (const krama::Error& e) {
    CHECK(std::string(e.what()).find("wait for it first") != std::string::npos);
  }
  CHECK(calls == 63);
  sum->wait();
  CHECK_NOTHROW(comm.reduce_scatter(exec, b.ref(), cuts, "b"));
}

TEST_CASE("start_reduce_scatter: one that goes out of scope is waited for", "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("dropped");
  const auto cuts = krama::Partition::even(100000, comm.size());
  const OnDevice v(exec, values_of<float>(comm.rank(), cuts.size()));
  {
    const auto sum = comm.start_reduce_scatter(exec, v.ref(), cuts, "v");
  }
  CHECK(same_bits(v.values(), sums_in_rank_order<float>(comm.size(), cuts.size()),
                  cuts.begin(comm.rank()), cuts.end(comm.rank())));
  CHECK_NOTHROW(comm.reduce_scatter(exec, v.ref(), cuts, "v"));
}
