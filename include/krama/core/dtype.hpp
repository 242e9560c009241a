// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Macros.hpp>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace krama {

/// Element types as they cross ranks and enter files. The byte sizes are fixed and independent of
/// the back end an executable was built for (Kokkos' own half types may be float wrappers, so they
/// never appear on the wire).
enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

/// bfloat16 storage: the upper half of an IEEE float, rounded to nearest even. All arithmetic is
/// done in float; the type only stores.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  KOKKOS_FUNCTION explicit bf16(float v) {
    const auto u = std::bit_cast<std::uint32_t>(v);
    // A NaN must stay one: rounding could carry its payload into the exponent.
    bits = (u & 0x7fffffffU) > 0x7f800000U
               ? static_cast<std::uint16_t>((u >> 16) | 0x40U)
               : static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
  KOKKOS_FUNCTION operator float() const {  // NOLINT: widening is exact, so it may be implicit
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE binary16 storage, rounded to nearest even; subnormals, infinities and NaN included. All
/// arithmetic is done in float; the type only stores.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  KOKKOS_FUNCTION explicit f16(float v) : bits(narrow(v)) {}
  KOKKOS_FUNCTION operator float() const { return widen(bits); }  // NOLINT: widening is exact

  KOKKOS_FUNCTION static std::uint16_t narrow(float v) {
    const auto u = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t sign = (u >> 16) & 0x8000U;
    const std::uint32_t magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
      // Subnormal: adding 0.5f aligns the mantissa so that the hardware does the rounding.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) & 0xffffU));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
  }
  KOKKOS_FUNCTION static float widen(std::uint16_t h) {
    const std::uint32_t sign = (h & 0x8000U) * 0x10000U;
    const std::uint32_t magnitude = h & 0x7fffU;
    if (magnitude >= 0x7c00U) {
      return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
    }
    if (magnitude < 0x0400U) {
      const float value = static_cast<float>(magnitude) * 0x1p-24F;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

namespace detail {
template <class T>
struct dtype_of;
template <>
struct dtype_of<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct dtype_of<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct dtype_of<bf16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct dtype_of<f16> : std::integral_constant<DType, DType::f16> {};
template <>
struct dtype_of<std::int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct dtype_of<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct dtype_of<std::uint8_t> : std::integral_constant<DType, DType::u8> {};
}  // namespace detail

/// The wire type of a C++ element type; does not compile for types that have none.
template <class T>
inline constexpr DType dtype_of = detail::dtype_of<std::remove_const_t<T>>::value;

/// The type of gradients, master weights, moments and reductions that belong to activations of
/// type `T`: double for double, float for everything else.
template <class T>
using accum_t = std::conditional_t<std::is_same_v<std::remove_const_t<T>, double>, double, float>;

}  // namespace krama
