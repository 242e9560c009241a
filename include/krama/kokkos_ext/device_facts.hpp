// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>
#include <type_traits>

#include <krama/core/build_info.hpp>
#include <krama/core/concepts.hpp>

namespace krama::kokkos_ext {

/// What an execution space computes on.
struct DeviceFacts {
  std::string vendor;             ///< "nvidia", "amd"; "cpu" for every host processor
  std::string architecture;       ///< "sm_90", "gfx942", "x86-64"
  std::int64_t memory_bytes = 0;  ///< of the device; 0: not known
};

/// Asks the back end. Needs Kokkos; starts no work.
template <ExecutionSpace E>
DeviceFacts device_facts([[maybe_unused]] const E& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<E, Kokkos::Cuda>) {
    const auto& p = exec.cuda_device_prop();
    return {"nvidia", "sm_" + std::to_string(p.major) + std::to_string(p.minor),
            static_cast<std::int64_t>(p.totalGlobalMem)};
  } else
#endif
#if defined(KOKKOS_ENABLE_HIP)
      if constexpr (std::is_same_v<E, Kokkos::HIP>) {
    const auto& p = exec.hip_device_prop();
    const std::string name(p.gcnArchName);  // "gfx942:sramecc+:xnack-"
    return {"amd", name.substr(0, name.find(':')), static_cast<std::int64_t>(p.totalGlobalMem)};
  } else
#endif
      if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                                               typename E::memory_space>::accessible) {
    const auto bytes =
        static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * std::int64_t{sysconf(_SC_PAGESIZE)};
    return {"cpu", processor_family(), bytes > 0 ? bytes : 0};
  } else {
    return {E::name(), "unknown", 0};
  }
}

}  // namespace krama::kokkos_ext
