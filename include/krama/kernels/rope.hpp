// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/vector_math.hpp>

namespace krama::kernels {

/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): pair i of a head's features is
/// turned by the angle t * theta^(-2 i / features) at position t. Which features form pair i
/// differs between published weights and cannot be seen from them: `half_split` (i, i + features /
/// 2) in Hugging Face files, `interleaved` (2 i, 2 i + 1) in Meta's.
enum class RopeStyle : std::uint8_t { none, half_split, interleaved };

namespace detail {
/// One pair's column of the table for a block of positions.
template <class A>
struct RopeTable {
  /// Positions between exact sines; those between are reached by turning, in double.
  static constexpr std::int64_t block = 32;
  A* table;
  std::int64_t time;
  std::int64_t pairs;
  double theta;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t pair = i % pairs;
    const std::int64_t begin = i / pairs * block;
    const std::int64_t end = begin + block < time ? begin + block : time;
    const double frequency =
        Kokkos::pow(theta, -static_cast<double>(pair) / static_cast<double>(pairs));
    const double turn_c = Kokkos::cos(frequency);
    const double turn_s = Kokkos::sin(frequency);
    double c = Kokkos::cos(frequency * static_cast<double>(begin));
    double s = Kokkos::sin(frequency * static_cast<double>(begin));
    for (std::int64_t t = begin; t < end; ++t) {
      A* row = table + t * 2 * pairs;
      row[pair] = static_cast<A>(c);
      row[pairs + pair] = static_cast<A>(s);
      const double next = c * turn_c - s * turn_s;
      s = s * turn_c + c * turn_s;
      c = next;
    }
  }
};

/// to (features) = scale * R from, with R the rotation of one position: `row` holds its cosines,
/// then its sines. `direction` -1 turns back (the gradient). `from` and `to` must not overlap.
template <class From, class To, class A>
KOKKOS_INLINE_FUNCTION void rope_row(RopeStyle style, const From* from, To* to,
                                     std::int64_t features, const A* row, A scale, A direction) {
  const std::int64_t pairs = features / 2;
  if (style == RopeStyle::half_split) {
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < pairs; ++i) {
      const A a = static_cast<A>(from[i]) * scale;
      const A b = static_cast<A>(from[i + pairs]) * scale;
      const A s = row[pairs + i] * direction;
      to[i] = static_cast<To>(a * row[i] - b * s);
      to[i + pairs] = static_cast<To>(b * row[i] + a * s);
    }
  } else if (style == RopeStyle::interleaved) {
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < pairs; ++i) {
      const A a = static_cast<A>(from[2 * i]) * scale;
      const A b = static_cast<A>(from[2 * i + 1]) * scale;
      const A s = row[pairs + i] * direction;
      to[2 * i] = static_cast<To>(a * row[i] - b * s);
      to[2 * i + 1] = static_cast<To>(b * row[i] + a * s);
    }
  } else {
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < features; ++i) {
      to[i] = static_cast<To>(static_cast<A>(from[i]) * scale);
    }
  }
}
}  // namespace detail

/// Fills `table` (time, features): for each position the cosines, then the sines of its pairs'
/// angles. Asynchronous on `exec`.
template <ExecutionSpace E, class A>
void rope_table(const E& exec, A* table, std::int64_t time, std::int64_t features, double theta) {
  using Kernel = detail::RopeTable<A>;
  const std::int64_t blocks = (time + Kernel::block - 1) / Kernel::block;
  kokkos_ext::launch(exec, "krama::kernels::rope_table", blocks * (features / 2),
                     Kernel{table, time, features / 2, theta});
}

}  // namespace krama::kernels
