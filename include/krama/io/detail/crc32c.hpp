// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

#include <krama/definitions.hpp>

namespace krama::io::detail {

/// Tables for CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) eight bytes at a time:
/// tables[k][b] is the effect of byte b with k zero bytes behind it.
inline constexpr auto crc32c_tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t c = b;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1U) != 0 ? 0x82F63B78U : 0U);
    tables[0][b] = c;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t c = tables[k - 1][b];
      tables[k][b] = (c >> 8) ^ tables[0][c & 0xffU];
    }
  }
  return tables;
}();

/// A running CRC-32C. The value of "123456789" is 0xE3069283.
class Crc32c {
 public:
  void add(std::span<const std::byte> bytes);

  /// The portable way; the same value as `add`.
  void add_table(std::span<const std::byte> bytes);

#if defined(__SSE4_2__)
  void add_instruction(std::span<const std::byte> bytes) {
    std::uint64_t state = state_;
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      std::uint64_t v = 0;
      std::memcpy(&v, bytes.data(), 8);
      state = _mm_crc32_u64(state, v);
    }
    state_ = static_cast<std::uint32_t>(state);
    for (const std::byte b : bytes)
      state_ = _mm_crc32_u8(state_, std::to_integer<unsigned char>(b));
  }
#endif

  [[nodiscard]] std::uint32_t value() const noexcept { return ~state_; }

 private:
  std::uint32_t state_ = ~std::uint32_t{0};
};

[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace krama::io::detail

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE void Crc32c::add(std::span<const std::byte> bytes) {
#if defined(__SSE4_2__)
  add_instruction(bytes);
#else
  add_table(bytes);
#endif
}

KRAMA_INLINE void Crc32c::add_table(std::span<const std::byte> bytes) {
  const auto& t = crc32c_tables;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t v = 0;
    std::memcpy(&v, bytes.data(), 8);
    v ^= state_;
    state_ = t[7][v & 0xffU] ^ t[6][(v >> 8) & 0xffU] ^ t[5][(v >> 16) & 0xffU] ^
             t[4][(v >> 24) & 0xffU] ^ t[3][(v >> 32) & 0xffU] ^ t[2][(v >> 40) & 0xffU] ^
             t[1][(v >> 48) & 0xffU] ^ t[0][v >> 56];
  }
  for (const std::byte b : bytes) {
    state_ = (state_ >> 8) ^ t[0][(state_ ^ std::to_integer<std::uint32_t>(b)) & 0xffU];
  }
}

KRAMA_INLINE std::uint32_t crc32c(std::span<const std::byte> bytes) {
  Crc32c crc;
  crc.add(bytes);
  return crc.value();
}

}  // namespace krama::io::detail

#endif  // KRAMA_DEFINITIONS
