// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// What the elements of a sum look like on their way to the owner, who adds in f32 whatever the format.
/// Finished values always go back as they are, so every rank ends with the same bits.
///
/// | format | bytes of n elements | error of an element x of a block with largest magnitude m |
/// |---|---|---|
/// | `f32` | 4 n (8 n where sums are f64) | none |
/// | `bf16` | 2 n | \|x\| / 256: rounded to nearest, ties to even |
/// | `f16` | 2 n | \|x\| / 2048, or 2^-25 where \|x\| < 2^-14; beyond 65504 it is Inf |
/// | `int8` | n + 4 a block | m / 126, 0 on average: rounded stochastically |
enum class WireFormat : std::uint8_t { f32, bf16, f16, int8 };

/// Elements that share a scale in `int8`; counted from the beginning of each message.
inline constexpr std::int64_t wire_block = 256;

constexpr std::string_view name_of(WireFormat f) {
  switch (f) {
    case WireFormat::f32:
      return "f32";
    case WireFormat::bf16:
      return "bf16";
    case WireFormat::f16:
      return "f16";
    case WireFormat::int8:
      return "int8";
  }
  return "?";
}

/// The format of this name. \throws Error for any other text; `source` says where it came from
WireFormat parse_wire_format(std::string_view text, std::string_view source);

/// KRAMA_WIRE, f32 when it is unset or empty.
WireFormat default_wire_format();

/// Bytes of a message of n elements that are `size` bytes each as they are. A single element in int8
/// travels as it is: its scale would be as long.
constexpr std::int64_t wire_bytes(WireFormat f, std::int64_t n, std::int64_t size = 4) {
  switch (f) {
    case WireFormat::f32:
      break;
    case WireFormat::bf16:
    case WireFormat::f16:
      return 2 * n;
    case WireFormat::int8:
      if (n > 1) return n + 4 * ((n + wire_block - 1) / wire_block);
      break;
  }
  return n * size;
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE WireFormat parse_wire_format(std::string_view text, std::string_view source) {
  for (const auto f : {WireFormat::f32, WireFormat::bf16, WireFormat::f16, WireFormat::int8}) {
    if (text == name_of(f)) return f;
  }
  throw Error(fmt::format("{} is \"{}\"; wanted f32, bf16, f16 or int8", source, text));
}

KRAMA_INLINE WireFormat default_wire_format() {
  const char* value = std::getenv("KRAMA_WIRE");
  if (value == nullptr || *value == '\0') return WireFormat::f32;
  return parse_wire_format(value, "KRAMA_WIRE");
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
