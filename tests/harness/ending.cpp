// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// ending HOW: a small MPI program whose last rank ends in the given way, in the middle of work that
// the others go on with. For tests of scripts/launch.
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {
void end_badly(std::string_view how) {
  if (how == "kill") raise(SIGKILL);
  if (how == "segv") raise(SIGSEGV);
  if (how == "abort") std::abort();
  if (how == "mpi_abort") {
    MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);  // MPICH 4.2's MPI_Abort may return, and the job then goes on for a while
  }
  if (how == "exit_0") _exit(0);
  if (how == "exit_5") _exit(5);
  if (how == "hang") {
    for (;;) sleep(1);
  }
}
}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "well";
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) end_badly(how);
  int one = 1;
  int all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const char* nonce = std::getenv("KRAMA_LAUNCH_NONCE");
  if (rank == 0 && all == size && how != "silent") {
    // Part of a line is not the last word, and neither is that of another run.
    std::printf("42 %% done\rkrama: all %d ranks finished [%s]\n", size,
                how == "other_run" || nonce == nullptr ? "0123456789abcdef" : nonce);
  }
  MPI_Finalize();
  if (how == "late_kill" && rank == size - 1) raise(SIGKILL);
  return how == "late_7" && rank == size - 1 ? 7 : 0;
}
