// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include <krama/comm/wire_format.hpp>
#include <krama/core/dtype.hpp>
#include <krama/core/error.hpp>
#include <krama/core/random.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// How the partial sums of one operation travel to their owners. All ranks give the same format; the
/// rest is each rank's own.
///
/// Error feedback (Seide et al. 2014; Karimireddy et al. 2019): what rounding drops from an element is
/// kept and added to the next value of the element that this rank sends. Whatever the form, a rank
/// sends each element that it does not own exactly once in an operation, so one residual an element is
/// enough, and over any number of operations
///
///     sum of what owners have = sum of what ranks gave - sum of the residuals that are left.
struct WireEncoding {
  WireFormat format = WireFormat::f32;
  /// One for each element of the buffer, in the host's memory, untouched by anybody else until the
  /// operation ends. Empty: what rounding drops is lost.
  std::span<float> residual = {};
  /// Of stochastic rounding: unlike on every rank and in every step, or errors would add up.
  RandomKey key = {};
  std::uint64_t first = 0;  ///< number of the buffer's first element in the key's stream
};

/// \throws Error where an encoding cannot be that of a sum of `n` elements of this type.
void check_encoding(const WireEncoding& e, DType type, std::int64_t n, std::string_view what);

namespace comm::detail {

/// The scale of a block whose largest magnitude has these bits: a little more than m / 127, with the
/// lowest 7 bits 0. So q * scale, |q| <= 127, is a product of 7 and 17 bits and exact in f32: it is
/// the same number in every executable, contracted with an addition or not. NaN where m is not finite.
float int8_scale(std::uint32_t m);

/// random[i] = uniform(key, first + i), i < n <= wire_block.
void uniforms(const RandomKey& key, std::uint64_t first, std::int64_t n, float* random);

/// Stochastic rounding: y goes up with the probability of its fraction, so that the mean is y.
void quantise(const float* v, float scale, const float* random, std::int64_t n, std::int8_t* q);

/// Writes one block of n <= wire_block elements to `out`, and what its receiver will read to `read`.
/// \return bytes written
template <class Half>
std::int64_t encode_halves(const float* v, std::int64_t n, unsigned char* out, float* read) {
  Half h[wire_block];
  for (std::int64_t i = 0; i < n; ++i) h[i] = Half(v[i]);
  for (std::int64_t i = 0; i < n; ++i) read[i] = h[i];
  std::memcpy(out, h, static_cast<std::size_t>(n) * sizeof(Half));
  return n * static_cast<std::int64_t>(sizeof(Half));
}
std::int64_t encode_int8(const float* v, std::int64_t n, const RandomKey& key, std::uint64_t first,
                         unsigned char* out, float* read);

/// Room that `decode_in_place` needs behind the elements.
inline constexpr std::int64_t landing_slack = 4;  // floats

/// Encodes `data[begin, begin + n)` of a buffer into that memory's first wire_bytes(format, n) bytes:
/// the rank that sends a partial sum has no more use for it.
void encode_in_place(const WireEncoding& e, float* data, std::int64_t begin, std::int64_t n);

/// Where n encoded elements have to arrive so that `decode_in_place(format, slot, n)` finds them: at the
/// end of n + landing_slack floats, so that decoding never writes over what it has still to read.
unsigned char* landing(WireFormat format, float* slot, std::int64_t n);
void decode_in_place(WireFormat format, float* slot, std::int64_t n);

}  // namespace comm::detail
}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE void check_encoding(const WireEncoding& e, DType type, std::int64_t n,
                                 std::string_view what) {
  KRAMA_EXPECTS(
      e.format == WireFormat::f32 || type == DType::f32,
      "\"{}\": sums of {} cannot travel as {}, only sums of f32 can; leave the wire format "
      "at f32, which sends them as they are",
      what, name_of(type), name_of(e.format));
  KRAMA_EXPECTS(e.residual.empty() || static_cast<std::int64_t>(e.residual.size()) == n,
                "\"{}\": {} residuals for {} elements; wanted one each, or none", what,
                e.residual.size(), n);
}

}  // namespace krama

namespace krama::comm::detail {

KRAMA_INLINE float int8_scale(std::uint32_t m) {
  if (m >= 0x7f800000U) return std::bit_cast<float>(0x7fc00000U);
  if (m == 0) return 0.0F;
  const auto u = std::bit_cast<std::uint32_t>(std::bit_cast<float>(m) / 127.0F);
  return std::bit_cast<float>((u & ~0x7fU) + 0x80U);
}

KRAMA_INLINE void uniforms(const RandomKey& key, std::uint64_t first, std::int64_t n,
                           float* random) {
  std::uint32_t words[wire_block + 8];
  const std::uint64_t begin = first >> 2U;
  const std::uint64_t end = ((first + static_cast<std::uint64_t>(n) - 1) >> 2U) + 1;
  for (std::uint64_t g = begin; g < end; ++g) {
    const auto four = philox(key, g);
    for (std::size_t k = 0; k < 4; ++k) words[4 * (g - begin) + k] = four[k];
  }
  const std::uint32_t* from = words + (first & 3U);
  for (std::int64_t i = 0; i < n; ++i) random[i] = static_cast<float>(from[i] >> 8U) * 0x1p-24F;
}

KRAMA_INLINE void quantise(const float* v, float scale, const float* random, std::int64_t n,
                           std::int8_t* q) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float y = v[i] / scale;
    const float below = std::floor(y);
    const float up = random[i] < y - below ? 1.0F : 0.0F;
    q[i] = static_cast<std::int8_t>(std::min(127.0F, below + up));
  }
}

KRAMA_INLINE std::int64_t encode_int8(const float* v, std::int64_t n, const RandomKey& key,
                                      std::uint64_t first, unsigned char* out, float* read) {
  std::uint32_t m = 0;  // by its bits, so that NaN is the largest
  for (std::int64_t i = 0; i < n; ++i) {
    m = std::max(m, std::bit_cast<std::uint32_t>(v[i]) & 0x7fffffffU);
  }
  const float scale = int8_scale(m);
  std::int8_t q[wire_block] = {};
  if (scale > 0) {
    float random[wire_block];
    uniforms(key, first, n, random);
    quantise(v, scale, random, n, q);
  }
  for (std::int64_t i = 0; i < n; ++i) read[i] = static_cast<float>(q[i]) * scale;
  std::memcpy(out, &scale, sizeof(scale));
  std::memcpy(out + sizeof(scale), q, static_cast<std::size_t>(n));
  return n + static_cast<std::int64_t>(sizeof(scale));
}

KRAMA_INLINE void encode_in_place(const WireEncoding& e, float* data, std::int64_t begin,
                                  std::int64_t n) {
  float* v = data + begin;
  if (wire_bytes(e.format, n) == 4 * n) {  // as it is, and with it what is owed
    for (std::int64_t i = 0; i < n && !e.residual.empty(); ++i) {
      v[i] += std::exchange(e.residual[static_cast<std::size_t>(begin + i)], 0.0F);
    }
    return;
  }
  auto* out = reinterpret_cast<unsigned char*>(v);
  for (std::int64_t at = 0; at < n; at += wire_block) {
    const std::int64_t count = std::min(wire_block, n - at);
    float wanted[wire_block];
    float read[wire_block];
    std::copy(v + at, v + at + count, wanted);
    float* kept = e.residual.empty() ? nullptr : e.residual.data() + begin + at;
    if (kept != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) wanted[i] += kept[i];
    }
    // Never past what has been read: a block is written to at most as many bytes as it had.
    switch (e.format) {
      case WireFormat::f32:
        break;
      case WireFormat::bf16:
        out += encode_halves<bf16>(wanted, count, out, read);
        break;
      case WireFormat::f16:
        out += encode_halves<f16>(wanted, count, out, read);
        break;
      case WireFormat::int8:
        out += encode_int8(wanted, count, e.key, e.first + static_cast<std::uint64_t>(begin + at),
                           out, read);
        break;
    }
    if (kept != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) kept[i] = wanted[i] - read[i];
    }
  }
}

KRAMA_INLINE unsigned char* landing(WireFormat format, float* slot, std::int64_t n) {
  auto* bytes = reinterpret_cast<unsigned char*>(slot);
  const std::int64_t wire = wire_bytes(format, n);
  return wire == 4 * n ? bytes : bytes + 4 * (n + landing_slack) - wire;
}

KRAMA_INLINE void decode_in_place(WireFormat format, float* slot, std::int64_t n) {
  if (wire_bytes(format, n) == 4 * n) return;
  const unsigned char* in = landing(format, slot, n);
  const auto halves = [&]<class Half>(Half, float* to, std::int64_t count) {
    Half h[wire_block];
    std::memcpy(h, in, static_cast<std::size_t>(count) * sizeof(Half));
    for (std::int64_t i = 0; i < count; ++i) to[i] = h[i];
    in += count * static_cast<std::int64_t>(sizeof(Half));
  };
  for (std::int64_t at = 0; at < n; at += wire_block) {
    const std::int64_t count = std::min(wire_block, n - at);
    float* to = slot + at;
    switch (format) {
      case WireFormat::f32:
        break;
      case WireFormat::bf16:
        halves(bf16{}, to, count);
        break;
      case WireFormat::f16:
        halves(f16{}, to, count);
        break;
      case WireFormat::int8: {
        float scale = 0;
        std::int8_t q[wire_block];
        std::memcpy(&scale, in, sizeof(scale));
        std::memcpy(q, in + sizeof(scale), static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(q[i]) * scale;
        in += count + static_cast<std::int64_t>(sizeof(scale));
        break;
      }
    }
  }
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
