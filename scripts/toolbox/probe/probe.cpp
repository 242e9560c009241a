// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <catch2/catch_session.hpp>
#include <concepts>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <source_location>

template <std::floating_point T>
T twice(T x) {
  return x + x;
}

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const auto text = fmt::format("{} {}", twice(1.0), std::source_location::current().line());
  return nlohmann::json(text).dump().empty() || MPI_VERSION < 3 ? 1 : 0;
}
