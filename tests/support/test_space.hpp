// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/concepts.hpp>

/// The device that tests run on: a build of the tests is for one device.
using TestDevice = krama::DefaultDevice;
