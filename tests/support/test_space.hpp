// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/concepts.hpp>

#ifdef KRAMA_TEST_GUARDED
#include <krama/testing/guarded/device.hpp>
#endif

/// The device that tests run on: a build of the tests is for one device. What krama_add_guarded_test
/// builds is for the stand-in device, where all work is delayed (main/delayed_work.cpp).
#ifdef KRAMA_TEST_GUARDED
using TestDevice = krama::testing::GuardedDevice::device_type;
#else
using TestDevice = krama::DefaultDevice;
#endif
