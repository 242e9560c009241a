// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/detail/crc32c.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace krama::io::detail {

// Krama keeps CRC-32C sums in the metadata of a safetensors file, eight hexadecimal digits each:
// "krama.crc32c.header" over the header with these digits themselves as zeros, and
// "krama.crc32c:<tensor>" over the bytes of each tensor. Other readers see ordinary metadata.
inline constexpr std::string_view header_sum_key = "krama.crc32c.header";
inline constexpr std::string_view tensor_sum_prefix = "krama.crc32c:";
inline constexpr std::string_view zero_sum = "00000000";

[[nodiscard]] std::string to_hex(std::uint32_t value);

[[nodiscard]] std::optional<std::uint32_t> from_hex(std::string_view text);

/// Where the digits of the header's sum stand in the header, or npos.
[[nodiscard]] std::size_t header_sum_position(std::string_view header);

/// The sum of a header whose digits stand at `position`.
[[nodiscard]] std::uint32_t header_sum(std::string_view header, std::size_t position);

}  // namespace krama::io::detail

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE std::string to_hex(std::uint32_t value) {
  std::string text(8, '0');
  for (std::size_t i = 8; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15U];
  return text;
}

KRAMA_INLINE std::optional<std::uint32_t> from_hex(std::string_view text) {
  if (text.size() != 8) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = (value << 4) | static_cast<std::uint32_t>(digit);
  }
  return value;
}

KRAMA_INLINE std::size_t header_sum_position(std::string_view header) {
  const std::string key = "\"" + std::string(header_sum_key) + "\":\"";
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos || at + key.size() + zero_sum.size() > header.size()) {
    return std::string_view::npos;
  }
  return at + key.size();
}

KRAMA_INLINE std::uint32_t header_sum(std::string_view header, std::size_t position) {
  const auto bytes = std::as_bytes(std::span(header.data(), header.size()));
  Crc32c crc;
  crc.add(bytes.first(position));
  crc.add(std::as_bytes(std::span(zero_sum.data(), zero_sum.size())));
  crc.add(bytes.subspan(position + zero_sum.size()));
  return crc.value();
}

}  // namespace krama::io::detail

#endif  // KRAMA_DEFINITIONS
