// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

namespace krama::io::detail {

static_assert(std::endian::native == std::endian::little,
              "krama::io: the file formats are little-endian and so must be the machine");

/// Reads an unsigned integer from the first sizeof(T) bytes. \pre bytes.size() >= sizeof(T)
template <class T>
[[nodiscard]] constexpr T load_le(std::span<const std::byte> bytes) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<T>(static_cast<T>(value << 8) | std::to_integer<T>(bytes[i]));
  }
  return value;
}

/// As `load_le`, most significant byte first.
template <class T>
  requires(sizeof(T) > 1)
[[nodiscard]] constexpr T load_be(std::span<const std::byte> bytes) {
  static_assert(std::is_unsigned_v<T>);
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(static_cast<T>(value << 8) | std::to_integer<T>(bytes[i]));
  }
  return value;
}

template <class T>
constexpr void store_le(T value, std::span<std::byte> out) {
  static_assert(std::is_unsigned_v<T>);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out[i] = static_cast<std::byte>((value >> (8 * i)) & 0xffU);
  }
}

/// Reverses the bytes of every item of `item` bytes. \pre data.size() % item == 0
constexpr void swap_items(std::span<std::byte> data, std::int64_t item) {
  const auto width = static_cast<std::size_t>(item);
  if (width < 2) return;
  for (std::size_t i = 0; i + width <= data.size(); i += width) {
    std::ranges::reverse(data.subspan(i, width));
  }
}

/// a * b, or nothing if that leaves the range of a 64-bit index. \pre a, b >= 0
[[nodiscard]] constexpr std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  if (a != 0 && b > std::numeric_limits<std::int64_t>::max() / a) return std::nullopt;
  return a * b;
}

/// Bytes of a packed array, or nothing on overflow. Zero extents do not excuse the others: their
/// product must fit as well, so that nobody overflows on strides later. \pre extents >= 0
[[nodiscard]] constexpr std::optional<std::int64_t> packed_bytes(
    std::span<const std::int64_t> extents, std::int64_t item) {
  std::optional<std::int64_t> total = item;
  bool zero = false;
  for (const std::int64_t e : extents) {
    if (e == 0) {
      zero = true;
      continue;
    }
    total = product(*total, e);
    if (!total) return std::nullopt;
  }
  return zero ? 0 : total;
}

}  // namespace krama::io::detail
