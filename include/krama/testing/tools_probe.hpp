// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace krama::testing {

/// What happened in Kokkos while a probe was active.
struct Seen {
  struct Kernel {
    std::string label;
    std::uint32_t device;
  };
  std::vector<Kernel> kernels;
  std::vector<std::string> allocations;
  std::vector<std::string> global_fences;
};

/// Listens to Kokkos Tools callbacks from construction to `stop()`; one at a time. Callbacks that
/// were set before are put back.
class ToolsProbe {
 public:
  ToolsProbe() {
    seen() = {};
    using namespace Kokkos::Tools::Experimental;  // NOLINT: names below are all from there
    before_ = get_callbacks();
    set_begin_parallel_for_callback(
        [](const char* name, const std::uint32_t device, std::uint64_t*) {
          seen().kernels.push_back({name, device});
        });
    set_begin_parallel_reduce_callback(
        [](const char* name, const std::uint32_t device, std::uint64_t*) {
          seen().kernels.push_back({name, device});
        });
    set_begin_parallel_scan_callback(
        [](const char* name, const std::uint32_t device, std::uint64_t*) {
          seen().kernels.push_back({name, device});
        });
    set_allocate_data_callback([](const Kokkos_Profiling_SpaceHandle, const char* label,
                                  const void*,
                                  const std::uint64_t) { seen().allocations.emplace_back(label); });
  }
  ToolsProbe(const ToolsProbe&) = delete;
  ToolsProbe& operator=(const ToolsProbe&) = delete;
  ~ToolsProbe() { restore(); }

  Seen stop() {
    restore();
    return seen();
  }

 private:
  static Seen& seen() {
    static Seen s;
    return s;
  }
  void restore() {
    if (active_) Kokkos::Tools::Experimental::set_callbacks(before_);
    active_ = false;
  }

  Kokkos::Tools::Experimental::EventSet before_{};
  bool active_ = true;
};

}  // namespace krama::testing
