// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <charconv>
#include <string>

#include <krama/definitions.hpp>

namespace krama::io::detail {

/// `value`, below 1e15 in size, with `places` digits behind the point: never in exponent form,
/// independent of the locale.
std::string fixed_number(double value, int places);

}  // namespace krama::io::detail

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE std::string fixed_number(double value, int places) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, places);
  return {buffer.data(), end.ptr};
}

}  // namespace krama::io::detail

#endif  // KRAMA_DEFINITIONS
