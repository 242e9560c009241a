// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "support/all_ok.hpp"

#include <krama/comm/mpi/communicator.hpp>

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <span>

TEST_CASE("mpi main: MPI and Kokkos run, and all ranks see one seed", "[harness]") {
  int initialized = 0;
  MPI_Initialized(&initialized);
  REQUIRE(initialized == 1);
  REQUIRE(Kokkos::is_initialized());
  auto comm = krama::MpiComm::world();
  const auto seed = static_cast<std::int64_t>(Catch::getSeed());
  std::array<std::int64_t, 2> extremes{seed, -seed};
  comm.min(std::span<std::int64_t>(extremes), "seeds");
  REQUIRE(extremes[0] == -extremes[1]);
}

TEST_CASE("all_ok: one rank that is not content stops all", "[harness]") {
  auto comm = krama::MpiComm::world();
  CHECK(krama::test::all_ok(comm, true));
  const bool last = comm.rank() == comm.size() - 1;
  CHECK_FALSE(krama::test::all_ok(comm, !last));
}

// Not run by itself: tests of the launcher ask for it by name.
TEST_CASE("mpi main: fails on the last rank", "[.][failing]") {
  const auto comm = krama::MpiComm::world();
  CHECK(comm.rank() != comm.size() - 1);
}

TEST_CASE("mpi main: never ends on the last rank", "[.][hanging]") {
  const auto comm = krama::MpiComm::world();
  if (comm.rank() != comm.size() - 1) return;
  for (;;) {
  }
}
