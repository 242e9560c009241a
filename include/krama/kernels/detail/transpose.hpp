// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <krama/kernels/detail/gemm_micro.hpp>

#if KRAMA_PACKED_GEMM
/// Transposes of small squares in vector registers.
namespace krama::kernels::detail {

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define KRAMA_HAS_SHUFFLE 1
#endif
#endif

#ifdef KRAMA_HAS_SHUFFLE
/// Swaps the off-diagonal squares of side H within each square of side 2 H of the rows `a` and `b`.
template <int H, class V, int... L>
void swap_squares(V& a, V& b, std::integer_sequence<int, L...> /*lanes*/) {
  constexpr int width = static_cast<int>(sizeof...(L));
  const V low = __builtin_shufflevector(a, b, ((L & H) != 0 ? width + L - H : L)...);
  const V high = __builtin_shufflevector(a, b, ((L & H) != 0 ? width + L : L + H)...);
  a = low;
  b = high;
}

template <int H, int Width, class V>
void transpose_step(V* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < Width; ++i) {
    if ((i & H) == 0) {
      swap_squares<H>(rows[i], rows[i + H], std::make_integer_sequence<int, Width>{});
    }
  }
  if constexpr (H > 1) transpose_step<H / 2, Width>(rows);
}
#endif

/// to[c][r] = from[r][c] for a square as wide as a vector; the first `lines` rows of `to` only.
template <class A>
void transpose_square(const A* from, std::int64_t from_stride, A* to, std::int64_t to_stride,
                      std::int64_t lines) {
  constexpr int width = VectorOf<A>::width;
#ifdef KRAMA_HAS_SHUFFLE
  typename VectorOf<A>::type rows[std::size_t{width}];
#pragma GCC unroll 16
  for (int i = 0; i < width; ++i) rows[i] = VectorOf<A>::load(from + i * from_stride);
  transpose_step<width / 2, width>(rows);
  if (lines >= width) {
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i) VectorOf<A>::store(to + i * to_stride, rows[i]);
  } else {
    for (int i = 0; i < static_cast<int>(lines); ++i) {
      VectorOf<A>::store(to + i * to_stride, rows[i]);
    }
  }
#else
  for (std::int64_t i = 0; i < lines && i < width; ++i) {
    for (int j = 0; j < width; ++j) to[i * to_stride + j] = from[j * from_stride + i];
  }
#endif
}

}  // namespace krama::kernels::detail
#endif
