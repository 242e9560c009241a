// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("control: sums, least and greatest are the same on every rank", "[comm]") {
  for (const auto& way : ways()) {
    INFO(way.name);
    auto comm = world().duplicate(way.name, way.options);
    for (const std::size_t n : {1U, 2U, 15U, 16U, 17U, 100U}) {
      const auto wanted = sums_in_rank_order<double>(comm.size(), static_cast<std::int64_t>(n));
      auto v = values_of<double>(comm.rank(), static_cast<std::int64_t>(n));
      comm.sum_in_rank_order(v, "reals");
      CHECK(same_bits(v, wanted));

      auto i = values_of<std::int64_t>(comm.rank(), static_cast<std::int64_t>(n));
      comm.sum(i, "integers");
      CHECK(i == sums_in_rank_order<std::int64_t>(comm.size(), static_cast<std::int64_t>(n)));
    }
    std::int64_t low[] = {comm.rank(), -comm.rank()};
    std::int64_t high[] = {comm.rank(), -comm.rank()};
    comm.min(low, "low");
    comm.max(high, "high");
    CHECK((low[0] == 0 && low[1] == 1 - comm.size()));
    CHECK((high[0] == comm.size() - 1 && high[1] == 0));
    comm.barrier("end");
  }
}

TEST_CASE("control: counters do not overflow 32 bits (C07)", "[comm]") {
  auto comm = world().duplicate("C07");
  std::int64_t tokens[] = {1500000000};
  comm.sum(tokens, "tokens");
  CHECK(tokens[0] == std::int64_t{1500000000} * comm.size());
}

TEST_CASE("control: texts of any length", "[comm]") {
  for (const auto& way : ways()) {
    auto comm = world().duplicate(way.name, way.options);
    const auto text = [](int r) {
      return std::string(static_cast<std::size_t>(r % 2 == 0 ? r * 7 : 150 + r * 100),
                         static_cast<char>('a' + r));
    };
    const auto all = comm.gather_text(text(comm.rank()), "texts");
    REQUIRE(all.size() == static_cast<std::size_t>(comm.size()));
    for (int r = 0; r < comm.size(); ++r) CHECK(all[static_cast<std::size_t>(r)] == text(r));
  }
}

TEST_CASE("split: ranks by colour, ordered by key", "[comm]") {
  auto comm = world().duplicate("to split");
  auto halves = comm.split(comm.rank() % 2, -comm.rank(), "halves");
  REQUIRE(halves.has_value());
  const int members = (comm.size() + 1 - comm.rank() % 2) / 2;
  CHECK(halves->size() == members);
  CHECK(halves->rank() == members - 1 - comm.rank() / 2);
  std::int64_t sum[] = {comm.rank()};
  halves->sum(sum, "ranks");
  std::int64_t wanted = 0;
  for (int r = comm.rank() % 2; r < comm.size(); r += 2) wanted += r;
  CHECK(sum[0] == wanted);

  const auto some = comm.split(comm.rank() == 0 ? std::optional<int>(0) : std::nullopt, 0, "one");
  CHECK(some.has_value() == (comm.rank() == 0));
  CHECK_THROWS_AS(comm.split(-1, 0, "negative"), krama::Error);
}

TEST_CASE("mpi: a user's communicator stays the user's", "[comm]") {
  MPI_Comm mine = MPI_COMM_NULL;
  REQUIRE(MPI_Comm_split(MPI_COMM_WORLD, 0, -world().rank(), &mine) == MPI_SUCCESS);
  {
    krama::MpiComm comm(mine, "user's");
    CHECK(comm.rank() == world().size() - 1 - world().rank());
    const krama::MpiComm copy = comm;
    CHECK(copy.name() == "user's");
    CHECK_THAT(copy.transport(), ContainsSubstring("mpi"));
  }
  int size = 0;
  CHECK(MPI_Comm_size(mine, &size) == MPI_SUCCESS);
  CHECK(size == world().size());
  MPI_Comm_free(&mine);

  krama::MpiComm alone(MPI_COMM_SELF, "alone");
  std::vector<float> v{1, 2};
  alone.allreduce(Exec(), ref(v), "v");
  CHECK(v == std::vector<float>{1, 2});
}

TEST_CASE("mpi: wrong options are refused", "[comm]") {
  auto options = world().options();
  options.max_count = 0;
  CHECK_THROWS_WITH(world().duplicate("bad", options), ContainsSubstring("max_count is 0"));
}
