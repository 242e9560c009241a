// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// main() of tests on several ranks: MPI, then Kokkos, then the Catch2 session, with the same order
// of tests and the same seed on all ranks. The exit code is the largest of all ranks, and rank 0
// prints the last word that scripts/launch waits for when it is 0. Rank 0 prints as usual; what
// other ranks print is shown only if they failed. A test case that takes longer than
// KRAMA_TEST_WATCHDOG seconds (default 60) ends the job with its name.

#include <mpi.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "main/watchdog.hpp"

namespace {

krama::test::Watchdog* watchdog = nullptr;

class CurrentTest : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    if (watchdog != nullptr) watchdog->start(info.name);
  }
  void testCaseEnded(const Catch::TestCaseStats& /*stats*/) override {
    if (watchdog != nullptr) watchdog->stop();
  }
};
CATCH_REGISTER_LISTENER(CurrentTest)

std::string read_file(const std::string& name) {
  const std::ifstream in(name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// One rank after the other prints what its tests had to say, if they failed.
void print_failures(int rank, int size, int code, const std::string& output) {
  std::fflush(stdout);
  for (int r = 1; r < size; ++r) {
    if (r == rank && code != 0) {
      std::printf("---- rank %d failed with code %d ----\n%s", rank, code,
                  read_file(output).c_str());
      std::fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

int run_session(int argc, char** argv, int rank, const std::string& output) {
  Catch::Session session;
  auto& config = session.configData();
  config.rngSeed = 20260101;
  config.runOrder = Catch::TestRunOrder::Declared;
  if (rank != 0) config.defaultOutputFilename = output;
  const int wrong = session.applyCommandLine(argc, argv);
  return wrong != 0 ? wrong : session.run();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string output = "/tmp/krama_test_" + std::to_string(getpid()) + ".txt";
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);

  int code = 0;
  {
    krama::test::Watchdog guard(rank);
    watchdog = &guard;
    Kokkos::initialize(argc, argv);
    code = run_session(argc, argv, rank, output);
    Kokkos::finalize();
    watchdog = nullptr;

    // The rank that hangs is to speak first: it knows where.
    guard.start("(the end: waiting for the other ranks)", 2);
    int worst = 0;
    MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (worst != 0) print_failures(rank, size, code, output);
    code = worst;
  }
  if (rank != 0) std::remove(output.c_str());

  const char* nonce = std::getenv("KRAMA_LAUNCH_NONCE");
  if (rank == 0 && code == 0 && nonce != nullptr) {
    std::printf("krama: all %d ranks finished [%s]\n", size, nonce);
    std::fflush(stdout);
  }
  MPI_Finalize();
  return code;
}
