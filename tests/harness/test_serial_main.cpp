// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "support/test_space.hpp"

#include <Kokkos_Core.hpp>
#include <catch2/catch_test_macros.hpp>

TEST_CASE("serial main: Kokkos runs around the tests", "[harness]") {
  REQUIRE(Kokkos::is_initialized());
  int sum = 0;
  Kokkos::parallel_reduce(
      "krama::test::sum", Kokkos::RangePolicy<TestDevice::execution_space>(0, 10),
      KOKKOS_LAMBDA(int i, int& local) { local += i; }, sum);
  REQUIRE(sum == 45);
}
