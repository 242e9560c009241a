// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <bit>
#include <cstdint>

/// Elementary functions for inner loops. For float they are short polynomials without branches,
/// tables or library calls, so that compilers turn a loop over them into vector instructions; the
/// same arithmetic on hosts and devices. For double they are Kokkos' (the library's accuracy):
/// double is the reference type. NaN passes through, infinities and overflow behave as in <cmath>.
///
/// Largest errors over all floats, in units in the last place of the result, with and without fused
/// multiply-add: exp 1.1, log 1, tanh 1.5, sigmoid 2.4, erf 1.3
/// (tests/kernels/test_vector_math.cpp).
namespace krama::kernels {

namespace detail {

KOKKOS_INLINE_FUNCTION float from_bits(std::uint32_t u) { return std::bit_cast<float>(u); }
KOKKOS_INLINE_FUNCTION std::uint32_t to_bits(float v) { return std::bit_cast<std::uint32_t>(v); }

// Selections are written with integer masks instead of comparisons: compilers turn a comparison
// into a branch around the arithmetic, and then do not vectorise the loop. The bits of a magnitude
// order like its value, NaN above infinity.
KOKKOS_INLINE_FUNCTION std::uint32_t magnitude_bits(float v) { return to_bits(v) & 0x7fffffffU; }
/// All ones where `a` > `b`, else zero; both below 2^31.
KOKKOS_INLINE_FUNCTION std::uint32_t mask_above(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(b - a) >> 31);
}
KOKKOS_INLINE_FUNCTION std::uint32_t mask_negative(float v) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(to_bits(v)) >> 31);
}
/// All ones where `v` is NaN; to be or-ed into a result that a clamp has made finite.
KOKKOS_INLINE_FUNCTION std::uint32_t mask_nan(float v) {
  return mask_above(magnitude_bits(v), 0x7f800000U);
}
KOKKOS_INLINE_FUNCTION float blend(std::uint32_t mask, float a, float b) {
  return from_bits((to_bits(a) & mask) | (to_bits(b) & ~mask));
}
KOKKOS_INLINE_FUNCTION float or_bits(float v, std::uint32_t bits) {
  return from_bits(to_bits(v) | bits);
}
KOKKOS_INLINE_FUNCTION float clamped_magnitude(float v, float limit) {
  const auto m = static_cast<std::int32_t>(magnitude_bits(v));
  const auto l = static_cast<std::int32_t>(to_bits(limit));
  return from_bits(static_cast<std::uint32_t>(m < l ? m : l));
}
KOKKOS_INLINE_FUNCTION std::uint32_t sign_bit(float v) { return to_bits(v) & 0x80000000U; }

/// x = n ln 2 + r with |r| <= ln 2 / 2; n is left in the low bits of `shifted`, as an integer.
struct Reduced {
  float r;
  std::uint32_t shifted;
};
KOKKOS_INLINE_FUNCTION Reduced reduce_ln2(float x) {
  // Adding 1.5 * 2^23 rounds to an integer; 1/ln 2 to a product that is near a half may fall on
  // either side, which is harmless.
  const float shifted = x * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  // ln 2 in two parts; n times the first one (9 bits) is exact.
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  return {r, to_bits(shifted)};
}

/// (exp(r) - 1 - r) / r^2 on [-0.35, 0.35].
KOKKOS_INLINE_FUNCTION float expm1_tail(float r) {
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return p;
}

}  // namespace detail

/// e^x. Results below the normal range are rounded gradually to zero; above it, infinity.
KOKKOS_INLINE_FUNCTION float exp(float x) {
  const float c = detail::or_bits(detail::clamped_magnitude(x, 104.0F), detail::sign_bit(x));
  const auto [r, shifted] = detail::reduce_ln2(c);
  const float p = (detail::expm1_tail(r) * (r * r) + r) + 1.0F;
  // 2^n as a product of two powers, each in range.
  const auto whole = static_cast<std::int32_t>(shifted - 0x4b400000U);
  const std::int32_t half = whole >> 1;
  const float a = detail::from_bits(static_cast<std::uint32_t>(half + 127) << 23);
  const float b = detail::from_bits(static_cast<std::uint32_t>(whole - half + 127) << 23);
  return detail::or_bits(p * a * b, detail::mask_nan(x));
}
KOKKOS_INLINE_FUNCTION double exp(double x) { return Kokkos::exp(x); }

/// e^x for x <= 0, as a softmax wants it: cheaper, and 0 below x = -87. NaN passes through.
KOKKOS_INLINE_FUNCTION float exp_nonpositive(float x) {
  const auto [r, shifted] = detail::reduce_ln2(-detail::clamped_magnitude(x, 87.0F));
  const float p = (detail::expm1_tail(r) * (r * r) + r) + 1.0F;
  const float y = p * detail::from_bits((shifted << 23) + 0x3f800000U);
  const std::uint32_t gone = detail::mask_above(detail::magnitude_bits(x), 0x42ae0000U);
  return detail::from_bits((detail::to_bits(y) & ~gone) | detail::mask_nan(x));
}
KOKKOS_INLINE_FUNCTION double exp_nonpositive(double x) { return Kokkos::exp(x); }

/// Natural logarithm; -inf at zero, NaN below.
KOKKOS_INLINE_FUNCTION float log(float x) {
  const std::uint32_t tiny = detail::mask_above(0x00800000U, detail::magnitude_bits(x));
  const float scaled = x * detail::blend(tiny, 8388608.0F, 1.0F);
  const std::uint32_t u = detail::to_bits(scaled);
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const std::uint32_t offset = u - 0x3f3504f3U;
  const std::int32_t e = static_cast<std::int32_t>(offset) >> 23;
  const float m = detail::from_bits((offset & 0x007fffffU) + 0x3f3504f3U) - 1.0F;
  const float n = static_cast<float>(e) - detail::blend(tiny, 23.0F, 0.0F);
  float p = 7.0376836292e-2F;
  p = p * m - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const float z = m * m;
  const float small = (p * m * z + n * -2.12194440e-4F) - 0.5F * z;
  const float y = (m + small) + n * 0.693359375F;
  // +inf and NaN are their own results; NaN below zero; -inf at zero.
  const std::uint32_t m_bits = detail::magnitude_bits(x);
  const float special = detail::blend(detail::mask_above(m_bits, 0x7f7fffffU), x, y);
  return detail::blend(detail::mask_above(1U, m_bits), detail::from_bits(0xff800000U),
                       detail::or_bits(special, detail::mask_negative(x)));
}
KOKKOS_INLINE_FUNCTION double log(double x) { return Kokkos::log(x); }

/// 1 / (1 + e^-x), exact to a few ulp on both tails.
KOKKOS_INLINE_FUNCTION float sigmoid(float x) {
  // e^-|x| never overflows; for negative x the result is e / (1 + e).
  const float e = exp(detail::or_bits(x, 0x80000000U));
  const float top = detail::blend(detail::mask_negative(x), e, 1.0F);
  return top / (1.0F + e);
}
KOKKOS_INLINE_FUNCTION double sigmoid(double x) {
  const double e = Kokkos::exp(x < 0.0 ? x : -x);
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/// Hyperbolic tangent: an odd polynomial near zero, 1 - 2 / (e^2|x| + 1) elsewhere.
KOKKOS_INLINE_FUNCTION float tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3F;
  p = p * z + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const float near = p * z * x + x;
  const float far = 1.0F - 2.0F / (exp(2.0F * detail::clamped_magnitude(x, 10.0F)) + 1.0F);
  const std::uint32_t is_far = detail::mask_above(detail::magnitude_bits(x), 0x3f200000U);
  const float y = detail::blend(is_far, far, near);
  return detail::or_bits(y, detail::sign_bit(x) | detail::mask_nan(x));
}
KOKKOS_INLINE_FUNCTION double tanh(double x) { return Kokkos::tanh(x); }

/// Error function: an odd polynomial below 0.92, 1 - exp(polynomial) above (the form of N. Juffa's
/// single-precision erf).
KOKKOS_INLINE_FUNCTION float erf(float x) {
  const float s = x * x;
  float near = -5.96761703e-4F;
  near = near * s + 4.99119423e-3F;
  near = near * s - 2.67681349e-2F;
  near = near * s + 1.12819925e-1F;
  near = near * s - 3.76125336e-1F;
  near = near * s + 1.28379166e-1F;
  near = near * x + x;
  const float t = detail::clamped_magnitude(x, 4.5F);
  float r =
      (-1.72853470e-5F * t + 3.83197126e-4F) * (t * t) + (-3.88396438e-3F * t + 2.42546219e-2F);
  r = r * t - 1.06777877e-1F;
  r = r * t - 6.34846687e-1F;
  r = r * t - 1.28717512e-1F;
  r = r * t - t;
  const float far = 1.0F - exp_nonpositive(r);
  const std::uint32_t is_far = detail::mask_above(detail::magnitude_bits(x), 0x3f6c0000U);
  const float y = detail::blend(is_far, far, near);
  return detail::or_bits(y, detail::sign_bit(x) | detail::mask_nan(x));
}
KOKKOS_INLINE_FUNCTION double erf(double x) { return Kokkos::erf(x); }

}  // namespace krama::kernels

/// Before an innermost host loop whose iterations are independent: compilers vectorise it at any
/// optimisation level. `KRAMA_VECTOR_SUM(s)` also allows the terms of `s` to be added in the order
/// that suits the vector unit: the same one in every run of one executable.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define KRAMA_VECTOR_LOOP
#define KRAMA_VECTOR_SUM(...)
#define KRAMA_VECTOR_MAX(...)
#elif defined(_OPENMP)
#define KRAMA_PRAGMA(text) _Pragma(#text)
#define KRAMA_VECTOR_LOOP KRAMA_PRAGMA(omp simd)
#define KRAMA_VECTOR_SUM(...) KRAMA_PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define KRAMA_VECTOR_MAX(...) KRAMA_PRAGMA(omp simd reduction(max : __VA_ARGS__))
#else
#define KRAMA_VECTOR_LOOP
#define KRAMA_VECTOR_SUM(...)
#define KRAMA_VECTOR_MAX(...)
#endif
