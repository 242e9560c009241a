// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/config.hpp>

#if KRAMA_ENABLE_MPI
#include <krama/comm/mpi/communicator.hpp>
#else
#include <krama/comm/self.hpp>
#endif

namespace krama {

/// The communicator of a whole job: MPI's, or one rank where Krama was configured without MPI.
#if KRAMA_ENABLE_MPI
using World = MpiComm;
#else
using World = SelfComm;
#endif

}  // namespace krama
