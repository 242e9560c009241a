// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// R02: whoever starts MPI and Kokkos ends them. The argument says what this main starts: "none",
// "mpi", "kokkos" or "both".
#include <krama/runtime/run.hpp>

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {
void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "owners: not so: %s\n", what);
  std::_Exit(9);
}
bool mpi_runs() {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started != 0 && ended == 0;
}
}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "none";
  const bool own_mpi = mode == "mpi" || mode == "both";
  const bool own_kokkos = mode == "kokkos" || mode == "both";
  int provided = 0;
  if (own_mpi) MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (own_kokkos) Kokkos::initialize(argc, argv);
  const int code = krama::run(argc, argv, [](krama::World& world, int, char**) {
    Kokkos::View<float*> view("v", 10);
    std::int64_t ranks[] = {1};
    world.sum(ranks, "ranks");
    return ranks[0] == world.size() ? 0 : 1;
  });
  expect(code == 0, "the program succeeds");
  expect(mpi_runs() == own_mpi, "MPI runs afterwards exactly if main started it");
  expect(Kokkos::is_initialized() == own_kokkos, "so does Kokkos");
  if (own_kokkos) {
    {
      Kokkos::View<float*> view("still usable", 10);
    }
    Kokkos::finalize();
  }
  if (own_mpi) MPI_Finalize();
  return code;
}
