// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/core/concepts.hpp>

namespace krama::kokkos_ext {

/// Another instance of the execution space of `exec`, with all of its resources. On devices its work
/// is ordered separately from that of `exec`.
template <ExecutionSpace E>
E separate_instance(const E& exec) {
  return Kokkos::Experimental::partition_space(exec, 1)[0];
}

}  // namespace krama::kokkos_ext
