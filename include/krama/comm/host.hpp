// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <sched.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <string>
#include <thread>
#include <vector>

#include <krama/definitions.hpp>

namespace krama {

/// The name of this machine.
std::string host_name();

/// Cores that this process may use (its affinity mask, not the machine's size), by number.
std::vector<int> allowed_cores();

/// Host threads that this process computes with; 1 before Kokkos has started.
int host_threads();

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? std::string(name) : std::string("unknown");
}

KRAMA_INLINE std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (std::size_t c = 0; c < CPU_SETSIZE; ++c) {
      if (CPU_ISSET(c, &set)) cores.push_back(static_cast<int>(c));
    }
  } else {
    // More cores than the mask holds: count them instead.
    const int n = static_cast<int>(std::thread::hardware_concurrency());
    for (int c = 0; c < n; ++c) cores.push_back(c);
  }
  return cores;
}

KRAMA_INLINE int host_threads() {
  if (!Kokkos::is_initialized()) return 1;
  return static_cast<int>(Kokkos::DefaultHostExecutionSpace().concurrency());
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
