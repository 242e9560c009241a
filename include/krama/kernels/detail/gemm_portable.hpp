// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kokkos_ext/seam.hpp>

namespace krama::kernels::detail {

/// One tile of R x N elements of C, straight from memory: any execution space, any strides.
template <class TA, class TB, class TC>
struct PortableGemm {
  static constexpr std::int64_t rows = 4;
  static constexpr std::int64_t cols = 16;
  GemmArgs<TA, TB, TC> g;

  KOKKOS_FUNCTION void operator()(std::int64_t tile) const {
    using A = accum_t<TC>;
    const std::int64_t across = (g.n + cols - 1) / cols;
    const std::int64_t i0 = tile / across * rows;
    const std::int64_t j0 = tile % across * cols;
    const std::int64_t im = g.m - i0 < rows ? g.m - i0 : rows;
    const std::int64_t jn = g.n - j0 < cols ? g.n - j0 : cols;
    A sum[rows][cols] = {};
    for (std::int64_t p = 0; p < g.k; ++p) {
      A b[cols] = {};
      for (std::int64_t j = 0; j < jn; ++j) {
        b[j] = static_cast<A>(g.tb == Op::none ? g.b[p * g.ldb + j0 + j] : g.b[(j0 + j) * g.ldb + p]);
      }
      for (std::int64_t i = 0; i < im; ++i) {
        const A a =
            static_cast<A>(g.ta == Op::none ? g.a[(i0 + i) * g.lda + p] : g.a[p * g.lda + i0 + i]);
        for (std::int64_t j = 0; j < cols; ++j) sum[i][j] += a * b[j];
      }
    }
    for (std::int64_t i = 0; i < im; ++i) {
      for (std::int64_t j = 0; j < jn; ++j) {
        TC& c = g.c[(i0 + i) * g.ldc + j0 + j];
        A v = g.alpha * sum[i][j];
        if (g.bias != nullptr) v += static_cast<A>(g.bias[j0 + j]);
        if (g.beta != A{0}) v += g.beta * static_cast<A>(c);
        c = static_cast<TC>(v);
      }
    }
  }
};

template <ExecutionSpace E, class TA, class TB, class TC>
void gemm_portable(const E& exec, const GemmArgs<TA, TB, TC>& g) {
  using Kernel = PortableGemm<TA, TB, TC>;
  const std::int64_t tiles =
      (g.m + Kernel::rows - 1) / Kernel::rows * ((g.n + Kernel::cols - 1) / Kernel::cols);
  kokkos_ext::launch(exec, "krama::kernels::gemm", tiles, Kernel{g});
}

}  // namespace krama::kernels::detail
