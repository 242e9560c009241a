// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/gemm_micro.hpp>

#if KRAMA_PACKED_GEMM
/// Copies of parts of A and B in the order in which the register kernel reads them.
namespace krama::kernels::detail {

/// out[j * so + i] = in[i * si + j] for i < rows, j < cols: a transposing copy, in blocks of 8 x 8 so
/// that both sides are touched a cache line at a time.
template <class A, class T>
void transpose_into(A* __restrict out, std::int64_t so, const T* __restrict in, std::int64_t si,
                    std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t block = 8;
  std::int64_t i = 0;
  for (; i + block <= rows; i += block) {
    std::int64_t j = 0;
    if constexpr (std::is_same_v<A, T> && sizeof(A) == 4) {
      typedef A V __attribute__((vector_size(32)));  // NOLINT: attributes need typedef
      for (; j + block <= cols; j += block) {
        V r[8];
        const A* p = in + i * si + j;
        KRAMA_UNROLL
        for (int q = 0; q < 8; ++q) __builtin_memcpy(&r[q], p + q * si, sizeof(V));
        V s[8];
        KRAMA_UNROLL
        for (int q = 0; q < 8; q += 2) {
          s[q] = __builtin_shufflevector(r[q], r[q + 1], 0, 8, 2, 10, 4, 12, 6, 14);
          s[q + 1] = __builtin_shufflevector(r[q], r[q + 1], 1, 9, 3, 11, 5, 13, 7, 15);
        }
        KRAMA_UNROLL
        for (int q = 0; q < 8; q += 4) {
          KRAMA_UNROLL
          for (int h = 0; h < 2; ++h) {
            r[q + h] = __builtin_shufflevector(s[q + h], s[q + h + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[q + h + 2] =
                __builtin_shufflevector(s[q + h], s[q + h + 2], 2, 3, 10, 11, 6, 7, 14, 15);
          }
        }
        KRAMA_UNROLL
        for (int h = 0; h < 4; ++h) {
          const V low = __builtin_shufflevector(r[h], r[h + 4], 0, 1, 2, 3, 8, 9, 10, 11);
          const V high = __builtin_shufflevector(r[h], r[h + 4], 4, 5, 6, 7, 12, 13, 14, 15);
          __builtin_memcpy(out + (j + h) * so + i, &low, sizeof(V));
          __builtin_memcpy(out + (j + h + 4) * so + i, &high, sizeof(V));
        }
      }
    }
    for (; j < cols; ++j) {
      for (std::int64_t q = 0; q < block; ++q) {
        out[j * so + i + q] = static_cast<A>(in[(i + q) * si + j]);
      }
    }
  }
  for (; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) out[j * so + i] = static_cast<A>(in[i * si + j]);
  }
}

/// k rows of `cols` columns of op(B) as panels of tile_cols: panel j is k rows of tile_cols elements,
/// zero beyond `cols`.
template <class A, class T>
void pack_panels(A* __restrict out, const T* __restrict b, std::int64_t ldb, bool transposed,
                 std::int64_t k, std::int64_t cols) {
  constexpr std::int64_t wide = tile_cols<A>;
  const std::int64_t whole = cols / wide * wide;
  if (transposed) {
    for (std::int64_t j = 0; j < cols; j += wide) {
      transpose_into(out + j * k, wide, b + j * ldb, ldb, cols - j < wide ? cols - j : wide, k);
    }
  } else {
    // Along whole rows of B, as the processor's prefetching likes it.
    for (std::int64_t p = 0; p < k; ++p) {
      const T* from = b + p * ldb;
      A* to = out + p * wide;
      for (std::int64_t j = 0; j < whole; j += wide) {
        KRAMA_IVDEP
        for (std::int64_t q = 0; q < wide; ++q) to[j * k + q] = static_cast<A>(from[j + q]);
      }
      for (std::int64_t j = whole; j < cols; ++j)
        to[whole * k + j - whole] = static_cast<A>(from[j]);
    }
  }
  if (whole < cols) {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = cols - whole; j < wide; ++j) out[whole * k + p * wide + j] = A{0};
    }
  }
}

/// `rows` rows of op(A), k steps, as strips of tile_rows: strip s is k rows of tile_rows elements
/// (elements beyond `rows` stay unwritten and are never read).
template <class A, class T>
void pack_rows(A* __restrict out, const T* __restrict a, std::int64_t lda, bool transposed,
               std::int64_t rows, std::int64_t k) {
  constexpr std::int64_t high = tile_rows;
  if (!transposed) {
    for (std::int64_t i = 0; i < rows; i += high) {
      transpose_into(out + i * k, high, a + i * lda, lda, rows - i < high ? rows - i : high, k);
    }
    return;
  }
  const std::int64_t whole = rows / high * high;
  for (std::int64_t p = 0; p < k; ++p) {
    const T* from = a + p * lda;
    A* to = out + p * high;
    for (std::int64_t i = 0; i < whole; i += high) {
      KRAMA_IVDEP
      for (std::int64_t q = 0; q < high; ++q) to[i * k + q] = static_cast<A>(from[i + q]);
    }
    for (std::int64_t i = whole; i < rows; ++i) {
      to[whole * k + i - whole] = static_cast<A>(from[i]);
    }
  }
}

}  // namespace krama::kernels::detail
#endif
