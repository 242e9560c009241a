// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/core/dtype.hpp>
#include <krama/core/random.hpp>

#include <bit>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace krama;

namespace {

template <class H>
H of_bits(std::uint32_t bits) {
  H h;
  h.bits = static_cast<std::uint16_t>(bits);
  return h;
}

template <class H>
struct Format;
template <>
struct Format<bf16> {
  static constexpr std::uint32_t infinity = 0x7f80;
  static constexpr int mantissa = 7, smallest = -133;
};
template <>
struct Format<f16> {
  static constexpr std::uint32_t infinity = 0x7c00;
  static constexpr int mantissa = 10, smallest = -24;
};

/// Value of a finite non-negative pattern, from the definition of the format.
template <class H>
double value_of(std::uint32_t bits) {
  const auto exponent = static_cast<int>(bits >> Format<H>::mantissa);
  const auto fraction = static_cast<double>(bits & ((1U << Format<H>::mantissa) - 1));
  if (exponent == 0) return std::ldexp(fraction, Format<H>::smallest);
  return std::ldexp(fraction + std::ldexp(1.0, Format<H>::mantissa),
                    Format<H>::smallest + exponent - 1);
}

/// Nearest pattern of a non-negative float, ties to even, by search.
template <class H>
std::uint32_t nearest(double v) {
  std::uint32_t low = 0, high = Format<H>::infinity;
  while (high - low > 1) {
    const std::uint32_t mid = (low + high) / 2;
    (value_of<H>(mid) <= v ? low : high) = mid;
  }
  // Infinity rounds as if the next power of two were representable.
  const double above = value_of<H>(high);
  const double middle = (value_of<H>(low) + above) / 2.0;
  if (v != middle) return v < middle ? low : high;
  return (low & 1U) == 0 ? low : high;
}

template <class H>
void check_rounding(float v) {
  const auto want = nearest<H>(std::abs(static_cast<double>(v))) | (std::signbit(v) ? 0x8000U : 0U);
  INFO("float bits " << std::hex << std::bit_cast<std::uint32_t>(v));
  CHECK(H(v).bits == want);
}

}  // namespace

TEMPLATE_TEST_CASE("dtype: all 65536 patterns widen exactly and come back", "[core]", bf16, f16) {
  std::size_t wrong = 0;
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const auto h = of_bits<TestType>(b);
    const auto v = static_cast<float>(h);
    const std::uint32_t magnitude = b & 0x7fffU;
    if (magnitude > Format<TestType>::infinity) {
      const auto back = TestType(v);
      if (!std::isnan(v) || (back.bits & 0x7fffU) <= Format<TestType>::infinity) ++wrong;
      continue;
    }
    const double want = magnitude == Format<TestType>::infinity
                            ? std::numeric_limits<double>::infinity()
                            : value_of<TestType>(magnitude);
    if (static_cast<double>(std::abs(v)) != want || std::signbit(v) != (b > 0x7fffU)) ++wrong;
    if (TestType(v).bits != b) ++wrong;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("dtype: floats round to nearest even", "[core]", bf16, f16) {
  // Random bit patterns reach every exponent; halves and their neighbours are the hard ones.
  for (std::uint32_t i = 0; i < 4000; ++i) {
    const auto u = philox({1, 2, 3}, i)[0];
    const auto v = std::bit_cast<float>(u);
    if (std::isfinite(v)) check_rounding<TestType>(v);
  }
  for (std::uint32_t i = 0; i < 4000; ++i) {
    const std::uint32_t b = philox({1, 3, 3}, i)[0] % Format<TestType>::infinity;
    const double low = value_of<TestType>(b), high = value_of<TestType>(b + 1);
    const auto middle = static_cast<float>((low + high) / 2.0);
    for (const float v : {middle, std::nextafterf(middle, 0.0F),
                          std::nextafterf(middle, std::numeric_limits<float>::max())}) {
      check_rounding<TestType>(v);
      check_rounding<TestType>(-v);
    }
  }
}

TEMPLATE_TEST_CASE("dtype: infinities and NaN stay what they are", "[core]", bf16, f16) {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(TestType(inf)) == inf);
  CHECK(static_cast<float>(TestType(-inf)) == -inf);
  // A NaN whose payload is in the bits that are cut off, and one that rounding would carry over.
  for (const std::uint32_t u : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU, 0x7fc00000U}) {
    CHECK(std::isnan(static_cast<float>(TestType(std::bit_cast<float>(u)))));
  }
  CHECK(std::isinf(static_cast<float>(TestType(std::numeric_limits<float>::max()))));
}

TEST_CASE("dtype: sizes, names and accumulation types", "[core]") {
  CHECK(size_of(DType::f64) == 8);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::u8) == 1);
  CHECK(name_of(DType::i32) == "i32");
  CHECK(dtype_of<const float> == DType::f32);
  STATIC_CHECK(std::is_same_v<accum_t<double>, double>);
  STATIC_CHECK(std::is_same_v<accum_t<bf16>, float>);
}
