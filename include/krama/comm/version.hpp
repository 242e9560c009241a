// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <string_view>

#include <krama/config.hpp>

#ifndef KRAMA_WIRE_VERSION
/// Rises when what ranks send each other changes its form: executables of one job must agree on it.
#define KRAMA_WIRE_VERSION 2
#endif

namespace krama {

inline constexpr std::uint32_t wire_version = KRAMA_WIRE_VERSION;
inline constexpr std::string_view library_version = KRAMA_VERSION_STRING;

}  // namespace krama
