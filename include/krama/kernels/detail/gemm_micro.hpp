// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <krama/core/dtype.hpp>

/// Host compilers with GNU vector types get the packed product; device compilers' host passes do not.
#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIP__)
#define KRAMA_PACKED_GEMM 1
#else
#define KRAMA_PACKED_GEMM 0
#endif

/// Whether the devices' product is compiled for host spaces too. Where the packed one is there nothing
/// needs it but comparisons: tests and benchmarks define this as 1, users' programs compile sooner.
#ifndef KRAMA_PORTABLE_GEMM
#define KRAMA_PORTABLE_GEMM (!KRAMA_PACKED_GEMM)
#endif

/// Before a short loop of fixed length over registers: write it out.
#if defined(__clang__) || defined(__CUDACC__)
#define KRAMA_UNROLL _Pragma("unroll")
#define KRAMA_IVDEP
#elif defined(__GNUC__)
#define KRAMA_UNROLL _Pragma("GCC unroll 16")
#define KRAMA_IVDEP _Pragma("GCC ivdep")
#else
#define KRAMA_UNROLL
#define KRAMA_IVDEP
#endif

#if KRAMA_PACKED_GEMM
/// The register kernel of the packed product: a few rows times one panel of B, kept in vector
/// registers over the whole loop. Each element is one chain of additions over k in order, whatever
/// the tile it falls in, so neither tiling nor threads change a bit of the result.
namespace krama::kernels::detail {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <class A>
struct VectorOf {
  static constexpr int width = vector_bytes / static_cast<int>(sizeof(A));
  typedef A type __attribute__((vector_size(vector_bytes)));  // NOLINT: attributes need typedef

  static type load(const A* p) {
    type v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(A* p, type v) { __builtin_memcpy(p, &v, sizeof v); }
};

/// Rows of a full tile. With 32 vector registers: 16 sums, 2 vectors of B, one broadcast of A.
inline constexpr int tile_rows = vector_bytes == 64 ? 8 : 4;
/// Columns of a full panel of B.
template <class A>
inline constexpr int tile_cols = 2 * VectorOf<A>::width;

/// What happens to a finished sum: c = alpha sum (+ bias) (+ beta c).
template <class A, class TB>
struct Epilogue {
  A alpha = 1;
  A beta = 0;
  const TB* bias = nullptr;  ///< of the tile's first column
};

/// How a tile reads A: row by row as stored, or column by column (transposed, or packed).
enum class Walk : std::uint8_t { rows, columns };

/// The rest of the epilogue for a tile at the edge or of another type, out of line: its loops are in
/// the program once, not once for each shape of tile.
template <class A, class TB, class TC>
[[gnu::noinline]] void finish_tile(int rows, int stride, const A* tile, const Epilogue<A, TB>& e,
                                   TC* c, std::int64_t ldc, std::int64_t valid) {
  for (int i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < valid; ++j) {
      A v = tile[i * stride + j];
      if (e.bias != nullptr) v += static_cast<A>(e.bias[j]);
      if (e.beta != A{0}) v += e.beta * static_cast<A>(c[i * ldc + j]);
      c[i * ldc + j] = static_cast<TC>(v);
    }
  }
}

/// C tile (Rows, valid columns) from k steps of A and one panel of B of NV vectors.
template <int Rows, int NV, Walk W, class A, class TB, class TC>
[[gnu::noinline]] void micro_tile(std::int64_t k, const A* __restrict a, std::int64_t sa,
                                  const A* __restrict b, std::int64_t sb, const Epilogue<A, TB>& e,
                                  TC* __restrict c, std::int64_t ldc, std::int64_t valid) {
  using V = VectorOf<A>;
  constexpr int width = V::width;
  typename V::type sum[std::size_t{Rows}][std::size_t{NV}] = {};
  for (std::int64_t p = 0; p < k; ++p) {
    typename V::type vb[std::size_t{NV}];
    KRAMA_UNROLL
    for (int j = 0; j < NV; ++j) vb[j] = V::load(b + j * width);
    KRAMA_UNROLL
    for (int i = 0; i < Rows; ++i) {
      const A va = W == Walk::rows ? a[i * sa + p] : a[p * sa + i];
      KRAMA_UNROLL
      for (int j = 0; j < NV; ++j) sum[i][j] += va * vb[j];
    }
    b += sb;
  }
  if (std::is_same_v<TC, A> && std::is_same_v<TB, A> && valid == NV * width) {
    A* cc = reinterpret_cast<A*>(c);
    const A* bias = reinterpret_cast<const A*>(e.bias);
    KRAMA_UNROLL
    for (int i = 0; i < Rows; ++i) {
      KRAMA_UNROLL
      for (int j = 0; j < NV; ++j) {
        A* at = cc + i * ldc + j * width;
        typename V::type v = e.alpha * sum[i][j];
        if (bias != nullptr) v += V::load(bias + j * width);
        if (e.beta != A{0}) v += e.beta * V::load(at);
        V::store(at, v);
      }
    }
    return;
  }
  alignas(vector_bytes) A tile[std::size_t{Rows}][std::size_t{NV} * std::size_t{width}];
  KRAMA_UNROLL
  for (int i = 0; i < Rows; ++i) {
    KRAMA_UNROLL
    for (int j = 0; j < NV; ++j) V::store(tile[i] + j * width, e.alpha * sum[i][j]);
  }
  finish_tile(Rows, NV * width, &tile[0][0], e, c, ldc, valid);
}

/// `rows` (at most tile_rows) rows of C against one panel.
template <int Rows, Walk W, class A, class TB, class TC>
void micro_rows(std::int64_t rows, std::int64_t k, const A* a, std::int64_t sa, const A* b,
                std::int64_t sb, const Epilogue<A, TB>& e, TC* c, std::int64_t ldc,
                std::int64_t valid) {
  if (rows >= Rows) {
    if (valid > VectorOf<A>::width) {
      micro_tile<Rows, 2, W>(k, a, sa, b, sb, e, c, ldc, valid);
    } else {
      micro_tile<Rows, 1, W>(k, a, sa, b, sb, e, c, ldc, valid);
    }
    if (rows == Rows) return;
    a += W == Walk::rows ? Rows * sa : Rows;
    c += Rows * ldc;
    rows -= Rows;
  }
  if constexpr (Rows > 1) micro_rows<Rows / 2, W>(rows, k, a, sa, b, sb, e, c, ldc, valid);
}

}  // namespace krama::kernels::detail
#endif
