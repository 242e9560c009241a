// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <krama/comm/mpi/detail/check.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// Starts MPI unless somebody else has, and ends it only if it started it. Only the thread that
/// makes this object calls MPI (MPI_THREAD_FUNNELED).
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv);
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;
  ~MpiEnvironment();

  /// True when this object started MPI and will end it.
  [[nodiscard]] bool owner() const { return owner_; }

  /// Ends the whole job at once, from any thread. Does nothing when MPI is not running.
  static void abort(int code) noexcept;

 private:
  bool owner_ = false;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int flag = 0;
  comm::detail::check(MPI_Finalized(&flag), "MPI_Finalized");
  KRAMA_EXPECTS(flag == 0, "MPI was finalized before Krama started; it cannot be started again");
  comm::detail::check(MPI_Initialized(&flag), "MPI_Initialized");
  int provided = MPI_THREAD_SINGLE;
  if (flag == 0) {
    comm::detail::check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided),
                        "MPI_Init_thread");
    owner_ = true;
  } else {
    comm::detail::check(MPI_Query_thread(&provided), "MPI_Query_thread");
    int main_thread = 0;
    comm::detail::check(MPI_Is_thread_main(&main_thread), "MPI_Is_thread_main");
    KRAMA_EXPECTS(main_thread != 0 || provided >= MPI_THREAD_SERIALIZED,
                  "this thread is not the one that started MPI, and MPI_THREAD_SERIALIZED was "
                  "not asked for");
  }
  KRAMA_EXPECTS(provided >= MPI_THREAD_FUNNELED,
                "MPI provides thread level {}; Krama computes with threads and needs "
                "MPI_THREAD_FUNNELED ({}): start MPI with MPI_Init_thread",
                provided, MPI_THREAD_FUNNELED);
}

KRAMA_INLINE MpiEnvironment::~MpiEnvironment() {
  if (!owner_) return;
  int finalized = 0;
  if (MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Finalize();
}

KRAMA_INLINE void MpiEnvironment::abort(int code) noexcept {
  int initialized = 0;
  int finalized = 0;
  if (MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 &&
      MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) {
    MPI_Abort(MPI_COMM_WORLD, code);
  }
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
