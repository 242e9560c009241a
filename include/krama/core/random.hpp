// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <array>
#include <cstdint>

namespace krama {

/// Names one stream of random numbers: what the numbers are for. Two streams never share a number;
/// the same stream gives the same numbers on every rank, thread count and back end.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< which user of random numbers (a layer, an initialiser, a shuffle)
  std::uint32_t step = 0;    ///< which training step (0 where there is none)
};

/// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
/// SC'11): a function from (key, counter) to four 32-bit words. No state, so the number that belongs
/// to a logical element is the same in recomputation, for any split over ranks, and after resuming.
KOKKOS_INLINE_FUNCTION Kokkos::Array<std::uint32_t, 4> philox(const RandomKey& key,
                                                              std::uint64_t index) {
  std::uint32_t c0 = static_cast<std::uint32_t>(index);
  std::uint32_t c1 = static_cast<std::uint32_t>(index >> 32);
  std::uint32_t c2 = key.stream;
  std::uint32_t c3 = key.step;
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {c0, c1, c2, c3};
}

/// Uniform in [0, 1), 24 bits: the same float on every back end.
KOKKOS_INLINE_FUNCTION float uniform(const RandomKey& key, std::uint64_t index) {
  const auto word = philox(key, index >> 2)[static_cast<std::size_t>(index & 3U)];
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

/// Standard normal by Box and Muller, in double on the host: initial weights are made there and
/// copied, so that they do not depend on a device's sine and logarithm.
inline double normal(const RandomKey& key, std::uint64_t index) {
  const auto words = philox(key, index);
  const double u = (static_cast<double>(words[0]) + 0.5) * 0x1p-32;
  const double v = static_cast<double>(words[1]) * 0x1p-32;
  constexpr double two_pi = 6.283185307179586476925286766559;
  return Kokkos::sqrt(-2.0 * Kokkos::log(u)) * Kokkos::cos(two_pi * v);
}

}  // namespace krama
