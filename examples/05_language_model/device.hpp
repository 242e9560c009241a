// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <krama/core/concepts.hpp>

#ifdef KRAMA_EXAMPLE_GUARDED
#include <krama/testing/guarded/device.hpp>
#endif

namespace example {

#ifdef KRAMA_EXAMPLE_GUARDED
/// This executable trains on the stand-in for a device: memory that the host cannot touch, work that
/// is done only when somebody waits for it. A slow way to see that a program would run on a real one.
using Device = krama::testing::GuardedDevice::device_type;
using DeviceWork = krama::testing::DelayedWork;
#else
#ifdef KRAMA_EXAMPLE_HOST
/// The host's own cores, whatever else this Kokkos is for.
using Device = Kokkos::DefaultHostExecutionSpace::device_type;
#else
using Device = krama::DefaultDevice;
#endif
struct DeviceWork {
  DeviceWork() {}  // not trivial: an object of it is not an unused variable
};
#endif

/// f32 alone compiles in a third of the time.
#ifdef KRAMA_EXAMPLE_F32
inline constexpr bool every_precision = false;
#else
inline constexpr bool every_precision = true;
#endif

}  // namespace example
