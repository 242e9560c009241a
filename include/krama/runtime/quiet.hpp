// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdlib>
#include <string_view>

#include <krama/definitions.hpp>

namespace krama {

/// The user wants no lines that nobody asked for: KRAMA_QUIET=1.
bool is_quiet();

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE bool is_quiet() {
  const char* word = std::getenv("KRAMA_QUIET");
  return word != nullptr && std::string_view(word) == "1";
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
