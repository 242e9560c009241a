// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A program of a user of the package: its own View, wrapped without a copy, and the ranks of its job.
#include <krama/config.hpp>
#include <krama/runtime/run.hpp>
#include <krama/tensor/wrap.hpp>

#include <Kokkos_Core.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](krama::World& world) {
    const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> mine("mine", 2, 3);
    auto wrapped = krama::wrap(mine);
    wrapped(1, 2) = 42.0F;
    std::array<std::int64_t, 1> right{mine(1, 2) == 42.0F ? 1 : 0};
    world.min(std::span<std::int64_t>(right), "consumer");
    if (world.rank() == 0) {
      std::printf("krama %s, MPI %d, oneDNN %d, OpenBLAS %d, %d ranks\n", KRAMA_VERSION_STRING,
                  KRAMA_ENABLE_MPI, KRAMA_HAS_ONEDNN, KRAMA_HAS_OPENBLAS, world.size());
    }
    return right[0] == 1 ? 0 : 1;
  });
}
