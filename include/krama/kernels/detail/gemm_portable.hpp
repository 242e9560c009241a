// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/core/extents.hpp>
#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kokkos_ext/seam.hpp>

namespace krama::kernels::detail {

/// Sizes of the portable kernel. A team makes one tile of C; its members share copies of the parts
/// of A and B behind it and each multiply micro tiles that fit registers. On hosts a team is one
/// thread and the copies fit its second-level cache; on devices they are small and shared.
template <ExecutionSpace E, class A>
struct PortableTiles {
  static constexpr bool host = kokkos_ext::is_host_space<E>;
  static constexpr int micro_rows = host ? 8 : 4;
  static constexpr int micro_cols = host ? static_cast<int>(128 / sizeof(A)) : 4;
  static constexpr int rows = host ? 128 : 64;
  static constexpr int cols = host ? 128 : 64;
  static constexpr int steps = host ? 256 : 16;
  static constexpr int run = host ? 16 : 1;  ///< steps that one member copies at a time
  static constexpr int micro_tiles = rows / micro_rows * (cols / micro_cols);
  static constexpr int members = kokkos_ext::has_host_teams<E> ? 1 : micro_tiles;
  static constexpr int scratch_level = host ? 1 : 0;
  static constexpr std::size_t scratch_bytes =
      static_cast<std::size_t>((rows + cols) * steps) * sizeof(A);
};

/// The product on any execution space. Every element of C is one chain of additions over k in order,
/// so its bits do not depend on threads or tiles.
template <ExecutionSpace E, class TA, class TB, class TC>
struct PortableGemm {
  using A = accum_t<TC>;
  using S = PortableTiles<E, A>;
  using Policy = Kokkos::TeamPolicy<E>;
  using Member = typename Policy::member_type;
  static constexpr int owned = S::micro_tiles / S::members;  ///< micro tiles of one member
  static constexpr int micro_size = S::micro_rows * S::micro_cols;

  GemmArgs<TA, TB, TC> first;
  BatchStrides strides;
  std::int64_t tiles = 1;  ///< of one product; the league holds those of all products in order

  /// out[i / Width][p][i % Width] = in(i, p) for i < count, zero up to the next multiple of Width:
  /// panels in the order in which micro tiles read them. A member copies a run of steps of a panel,
  /// so that hosts use whole cache lines when steps are neighbours in memory.
  template <int Width, class T>
  KOKKOS_FUNCTION static void pack(const Member& team, A* out, const T* in, std::int64_t across,
                                   std::int64_t along, int count, int steps) {
    const int panels = (count + Width - 1) / Width;
    const int runs = (steps + S::run - 1) / S::run;
    for (int t = team.team_rank(); t < panels * runs; t += team.team_size()) {
      // Neighbouring members read neighbouring elements.
      const int panel = along == 1 ? t / runs : t % panels;
      const int first = (along == 1 ? t % runs : t / panels) * S::run;
      const int last = first + S::run < steps ? first + S::run : steps;
      const int valid = count - panel * Width < Width ? count - panel * Width : Width;
      const T* from = in + panel * Width * across;
      A* to = out + panel * S::steps * Width;
      if (valid < Width) {
        for (int p = first; p < last; ++p) {
          for (int i = 0; i < Width; ++i) {
            to[p * Width + i] = i < valid ? static_cast<A>(from[i * across + p * along]) : A{0};
          }
        }
      } else if (across == 1) {
        for (int p = first; p < last; ++p) {
          for (int i = 0; i < Width; ++i) to[p * Width + i] = static_cast<A>(from[p * along + i]);
        }
      } else {
        for (int i = 0; i < Width; ++i) {
          for (int p = first; p < last; ++p) {
            to[p * Width + i] = static_cast<A>(from[i * across + p * along]);
          }
        }
      }
    }
  }

  /// sum += a panel of A times a panel of B.
  KOKKOS_FUNCTION static void multiply(const A* a, const A* b, int steps, A* sum) {
    A s[S::micro_rows][S::micro_cols];
    for (int i = 0; i < S::micro_rows; ++i) {
      for (int j = 0; j < S::micro_cols; ++j) s[i][j] = sum[i * S::micro_cols + j];
    }
    for (int p = 0; p < steps; ++p) {
      for (int i = 0; i < S::micro_rows; ++i) {
        for (int j = 0; j < S::micro_cols; ++j) {
          s[i][j] += a[p * S::micro_rows + i] * b[p * S::micro_cols + j];
        }
      }
    }
    for (int i = 0; i < S::micro_rows; ++i) {
      for (int j = 0; j < S::micro_cols; ++j) sum[i * S::micro_cols + j] = s[i][j];
    }
  }

  KOKKOS_FUNCTION static void store(const GemmArgs<TA, TB, TC>& g, const A* sum, std::int64_t i0,
                                    std::int64_t j0) {
    for (int i = 0; i < S::micro_rows && i0 + i < g.m; ++i) {
      for (int j = 0; j < S::micro_cols && j0 + j < g.n; ++j) {
        TC& c = g.c[(i0 + i) * g.ldc + j0 + j];
        A v = g.alpha * sum[i * S::micro_cols + j];
        if (g.bias != nullptr) v += static_cast<A>(g.bias[j0 + j]);
        if (g.beta != A{0}) v += g.beta * static_cast<A>(c);
        c = static_cast<TC>(v);
      }
    }
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t tile = team.league_rank() % tiles;
    const auto g = product_of_batch(first, strides, team.league_rank() / tiles);
    const std::int64_t tiles_across = (g.n + S::cols - 1) / S::cols;
    const std::int64_t i0 = tile / tiles_across * S::rows;
    const std::int64_t j0 = tile % tiles_across * S::cols;
    const int valid_rows = static_cast<int>(g.m - i0 < S::rows ? g.m - i0 : S::rows);
    const int valid_cols = static_cast<int>(g.n - j0 < S::cols ? g.n - j0 : S::cols);
    // Copies: the two take references, and devices have no static members to refer to.
    const int level = S::scratch_level;
    const std::size_t bytes = S::scratch_bytes;
    A* const a = static_cast<A*>(team.team_scratch(level).get_shmem(bytes));
    A* const b = a + S::rows * S::steps;
    // Elements of op(A) and op(B) between neighbours across and along k.
    const std::int64_t a_across = g.ta == Op::none ? g.lda : 1;
    const std::int64_t a_along = g.ta == Op::none ? 1 : g.lda;
    const std::int64_t b_across = g.tb == Op::none ? 1 : g.ldb;
    const std::int64_t b_along = g.tb == Op::none ? g.ldb : 1;

    A sum[static_cast<std::size_t>(owned * micro_size)] = {};
    for (std::int64_t p0 = 0; p0 < g.k; p0 += S::steps) {
      const int steps = static_cast<int>(g.k - p0 < S::steps ? g.k - p0 : S::steps);
      pack<S::micro_rows>(team, a, g.a + i0 * a_across + p0 * a_along, a_across, a_along,
                          valid_rows, steps);
      pack<S::micro_cols>(team, b, g.b + j0 * b_across + p0 * b_along, b_across, b_along,
                          valid_cols, steps);
      team.team_barrier();
      for (int t = 0; t < owned; ++t) {
        const int micro = t * S::members + team.team_rank();
        const int i = micro % (S::rows / S::micro_rows);
        const int j = micro / (S::rows / S::micro_rows);
        if (i * S::micro_rows >= valid_rows || j * S::micro_cols >= valid_cols) continue;
        multiply(a + i * S::steps * S::micro_rows, b + j * S::steps * S::micro_cols, steps,
                 sum + t * micro_size);
      }
      team.team_barrier();
    }
    for (int t = 0; t < owned; ++t) {
      const int micro = t * S::members + team.team_rank();
      const int i = micro % (S::rows / S::micro_rows);
      const int j = micro / (S::rows / S::micro_rows);
      store(g, sum + t * micro_size, i0 + i * S::micro_rows, j0 + j * S::micro_cols);
    }
  }
};

template <ExecutionSpace E, class TA, class TB, class TC>
void gemm_portable(const E& exec, const GemmArgs<TA, TB, TC>& g, const BatchStrides& strides = {},
                   std::int64_t batch = 1) {
  using Kernel = PortableGemm<E, TA, TB, TC>;
  using S = typename Kernel::S;
  const std::int64_t tiles = (g.m + S::rows - 1) / S::rows * ((g.n + S::cols - 1) / S::cols);
  KRAMA_EXPECTS(checked_product(tiles, batch) <= 0x7fffffff,
                "gemm: {} products with C ({}, {}) have too many tiles", batch, g.m, g.n);
  typename Kernel::Policy policy(exec, static_cast<int>(tiles * batch), S::members);
  policy.set_scratch_size(S::scratch_level, Kokkos::PerTeam(S::scratch_bytes));
  kokkos_ext::launch_policy("krama::kernels::gemm", policy, Kernel{g, strides, tiles});
}

}  // namespace krama::kernels::detail
