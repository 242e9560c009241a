// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/vector_math.hpp>

/// Reductions of one row by one thread, in a fixed order: element i goes to lane i mod 16 and the
/// lanes are joined pairwise. Sixteen independent chains are what vector units want; the order is
/// part of the definition, so the width of the machine's vectors does not show in the bits.
namespace krama::kernels {

inline constexpr int row_lanes = 16;

namespace detail {
struct AddOp {
  template <class A>
  KOKKOS_FUNCTION A operator()(A a, A b) const {
    return a + b;
  }
};
struct MaxOp {
  template <class A>
  KOKKOS_FUNCTION A operator()(A a, A b) const {
    return a < b ? b : a;
  }
};

/// Joins lane l with lane l + Half, then the halves of that. A compile-time count, so that each
/// level is a vector instruction.
template <int Half, class A, class Op>
KOKKOS_FORCEINLINE_FUNCTION void join_lanes(A* lane, const Op& op) {
  KRAMA_VECTOR_LOOP
  for (int l = 0; l < Half; ++l) lane[l] = op(lane[l], lane[l + Half]);
  if constexpr (Half > 1) join_lanes<Half / 2>(lane, op);
}

template <class A, class Op, class F>
KOKKOS_FORCEINLINE_FUNCTION A row_reduce(std::int64_t n, A start, const Op& op, const F& f) {
  A lane[row_lanes];
  for (int l = 0; l < row_lanes; ++l) lane[l] = start;
  const std::int64_t whole = n / row_lanes * row_lanes;
  for (std::int64_t i = 0; i < whole; i += row_lanes) {
    KRAMA_VECTOR_LOOP
    for (int l = 0; l < row_lanes; ++l) lane[l] = op(lane[l], f(i + l));
  }
  const auto rest = static_cast<int>(n - whole);
  for (int l = 0; l < rest; ++l) lane[l] = op(lane[l], f(whole + l));
  join_lanes<row_lanes / 2>(lane, op);
  return lane[0];
}
}  // namespace detail

/// Sum of f(i) for i in [0, n), in type A.
template <class A, class F>
KOKKOS_FORCEINLINE_FUNCTION A row_sum(std::int64_t n, const F& f) {
  return detail::row_reduce(n, A{0}, detail::AddOp{}, f);
}

/// Largest of `start` and f(i) for i in [0, n). NaN elements do not take part.
template <class A, class F>
KOKKOS_FORCEINLINE_FUNCTION A row_max(std::int64_t n, A start, const F& f) {
  return detail::row_reduce(n, start, detail::MaxOp{}, f);
}

}  // namespace krama::kernels
