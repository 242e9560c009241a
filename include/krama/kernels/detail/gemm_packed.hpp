// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kernels/detail/gemm_pack.hpp>
#include <krama/kokkos_ext/seam.hpp>

#if KRAMA_PACKED_GEMM
/// Krama's own product for host cores: panels of B copied into cache, A read in place where it can
/// be, one pass of the register kernel. Plans depend on shapes and thread count only, bits on shapes
/// only.
namespace krama::kernels::detail {

/// Cache-aligned memory of the calling thread; grows, is kept, and is released with the thread.
template <class A>
A* thread_scratch(std::int64_t elements) {
  struct Free {
    void operator()(A* p) const { std::free(p); }  // NOLINT: pairs with aligned_alloc
  };
  thread_local std::unique_ptr<A, Free> memory;
  thread_local std::int64_t size = 0;
  if (elements > size) [[unlikely]] {
    memory.reset();
    const std::int64_t rounded = (elements + 1023) / 1024 * 1024;
    memory.reset(
        static_cast<A*>(std::aligned_alloc(4096, static_cast<std::size_t>(rounded) * sizeof(A))));
    if (memory == nullptr) throw std::bad_alloc();
    size = rounded;
  }
  return memory.get();
}

/// Sizes of the copies. With 8-byte elements half as many.
template <class A>
struct PackLimits {
  static constexpr std::int64_t k_block = 1024 / static_cast<std::int64_t>(sizeof(A));
  /// Elements of B that stay in a core's second-level cache while all rows of A pass by.
  static constexpr std::int64_t b_block = 400 * 1024 / static_cast<std::int64_t>(sizeof(A));
  /// B is read in place when it fits the first-level cache.
  static constexpr std::int64_t b_in_place = 24 * 1024 / static_cast<std::int64_t>(sizeof(A));
  /// Rows of A converted at a time.
  static constexpr std::int64_t a_rows = 8 * tile_rows;
};

/// A block of C, rows [i0, i1) and columns [j0, j1), on the calling thread.
template <class T, class TC>
void packed_block(const GemmArgs<T, T, TC>& g, std::int64_t i0, std::int64_t i1, std::int64_t j0,
                  std::int64_t j1) {
  using A = accum_t<TC>;
  using Limits = PackLimits<A>;
  constexpr std::int64_t wide = tile_cols<A>;
  constexpr std::int64_t high = tile_rows;
  constexpr bool same = std::is_same_v<T, A>;
  const bool ta = g.ta == Op::transpose;
  const bool tb = g.tb == Op::transpose;
  constexpr bool pack_a = !same;
  const std::int64_t cols = j1 - j0;
  const bool b_in_place = same && !tb && (g.k * g.n <= Limits::b_in_place || i1 - i0 <= 2 * high);

  // Partial sums may wait in C only where C can hold them.
  const std::int64_t k_blocks =
      std::is_same_v<TC, A>
          ? std::max<std::int64_t>(1, (g.k + Limits::k_block - 1) / Limits::k_block)
          : 1;
  const std::int64_t k_block = (g.k + k_blocks - 1) / k_blocks;
  const std::int64_t padded = (cols + wide - 1) / wide * wide;
  const std::int64_t j_block =
      std::clamp(Limits::b_block / std::max<std::int64_t>(k_block, 1) / wide * wide, wide, padded);
  A* const packed_b = thread_scratch<A>(k_block * (j_block + Limits::a_rows) + 64);
  A* const packed_a = packed_b + k_block * j_block;

  for (std::int64_t p0 = 0; p0 < std::max<std::int64_t>(g.k, 1);
       p0 += std::max<std::int64_t>(k_block, 1)) {
    const std::int64_t kc = std::min(k_block, g.k - p0);
    Epilogue<A, T> first{g.alpha, p0 == 0 ? g.beta : A{1}, nullptr};
    for (std::int64_t jc = j0; jc < j1; jc += j_block) {
      const std::int64_t je = std::min(j1, jc + j_block);
      // In place, only the last columns are copied, for the zeros beyond them.
      const std::int64_t copied = b_in_place ? jc + (je - jc) / wide * wide : jc;
      if (copied < je) {
        pack_panels(packed_b + (copied - jc) * kc,
                    g.b + (tb ? copied * g.ldb + p0 : p0 * g.ldb + copied), g.ldb, tb, kc,
                    je - copied);
      }
      for (std::int64_t i = i0; i < i1; i += pack_a ? Limits::a_rows : high) {
        const std::int64_t ie = std::min(i1, i + (pack_a ? Limits::a_rows : high));
        if constexpr (pack_a) {
          pack_rows(packed_a, g.a + (ta ? p0 * g.lda + i : i * g.lda + p0), g.lda, ta, ie - i, kc);
        }
        for (std::int64_t j = jc; j < je; j += wide) {
          const std::int64_t valid = std::min(wide, je - j);
          const bool direct = b_in_place && valid == wide;
          const A* panel = packed_b + (j - jc) * kc;
          std::int64_t sb = wide;
          if constexpr (same) {
            if (direct) {
              panel = g.b + p0 * g.ldb + j;
              sb = g.ldb;
            }
          }
          Epilogue<A, T> e = first;
          if (p0 == 0 && g.bias != nullptr) e.bias = g.bias + j;
          for (std::int64_t s = i; s < ie; s += high) {
            const std::int64_t rows = std::min(high, ie - s);
            TC* c = g.c + s * g.ldc + j;
            if constexpr (pack_a) {
              micro_rows<tile_rows, Walk::columns>(rows, kc, packed_a + (s - i) * kc, high, panel,
                                                   sb, e, c, g.ldc, valid);
            } else if (ta) {
              micro_rows<tile_rows, Walk::columns>(rows, kc, g.a + p0 * g.lda + s, g.lda, panel, sb,
                                                   e, c, g.ldc, valid);
            } else {
              micro_rows<tile_rows, Walk::rows>(rows, kc, g.a + s * g.lda + p0, g.lda, panel, sb, e,
                                                c, g.ldc, valid);
            }
          }
        }
      }
    }
  }
}

/// How `threads` threads share C: rows_of x cols_of blocks, each packing what it needs.
struct PackedPlan {
  std::int64_t row_parts = 1;
  std::int64_t col_parts = 1;
  std::int64_t rows = 0;  ///< of one part, a multiple of the tile
  std::int64_t cols = 0;
};

/// The cheapest division by a count of cycles: 16 for a tile and step of k, 10 to copy a panel's row,
/// 3 to
/// convert a strip's column, 1 to read it in place.
inline PackedPlan packed_plan(std::int64_t m, std::int64_t n, bool pack_a, std::int64_t wide,
                              std::int64_t threads) {
  const auto parts_of = [](std::int64_t whole, std::int64_t parts) {
    return (whole + parts - 1) / parts;
  };
  const std::int64_t strips = parts_of(m, tile_rows);
  const std::int64_t panels = parts_of(n, wide);
  PackedPlan best;
  std::int64_t best_cost = -1;
  for (std::int64_t c = 1; c <= std::min(threads, panels); ++c) {
    const std::int64_t r = std::min(std::max<std::int64_t>(threads / c, 1), strips);
    const std::int64_t s = parts_of(strips, r);
    const std::int64_t p = parts_of(panels, c);
    const std::int64_t cost = 16 * s * p + 10 * p + (pack_a ? 3 : 1) * s;
    if (best_cost < 0 || cost < best_cost) {
      best_cost = cost;
      best = {parts_of(strips, s), parts_of(panels, p), s * tile_rows, p * wide};
    }
  }
  return best;
}

/// One part of C for each index.
template <class T, class TC>
struct PackedParts {
  GemmArgs<T, T, TC> g;
  PackedPlan plan;
  void operator()(std::int64_t part) const {
    const std::int64_t i0 = part / plan.col_parts * plan.rows;
    const std::int64_t j0 = part % plan.col_parts * plan.cols;
    packed_block(g, i0, std::min(g.m, i0 + plan.rows), j0, std::min(g.n, j0 + plan.cols));
  }
};

/// Multiply-adds below which starting threads costs more than it saves.
inline constexpr std::int64_t packed_serial_work = 48 * 48 * 48;

template <ExecutionSpace E, class T, class TC>
void gemm_packed(const E& exec, const GemmArgs<T, T, TC>& g, std::int64_t threads) {
  if (threads <= 1 || g.m * g.n * g.k <= packed_serial_work) {
    kokkos_ext::library_call(exec, "krama::kernels::gemm",
                             [&g] { packed_block(g, 0, g.m, 0, g.n); });
    return;
  }
  constexpr bool pack_a = !std::is_same_v<T, accum_t<TC>>;
  const PackedPlan plan = packed_plan(g.m, g.n, pack_a, tile_cols<accum_t<TC>>, threads);
  kokkos_ext::launch(exec, "krama::kernels::gemm", plan.row_parts * plan.col_parts,
                     PackedParts<T, TC>{g, plan});
}

}  // namespace krama::kernels::detail
#endif
