// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// main() of tests on one rank: Kokkos around the Catch2 session, and nothing else.

#include <Kokkos_Core.hpp>
#include <catch2/catch_session.hpp>
#include <cstdlib>

int main(int argc, char** argv) {
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return Catch::Session().run(argc, argv);
}
