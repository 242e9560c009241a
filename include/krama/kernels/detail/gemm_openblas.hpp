// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/gemm_args.hpp>

#if KRAMA_HAS_OPENBLAS
#include <cblas.h>
#include <limits>
#include <type_traits>
#endif

namespace krama::kernels::detail {

/// OpenBLAS takes f64 and f32, all three matrices of one type.
template <class TA, class TB, class TC>
inline constexpr bool openblas_takes =
#if KRAMA_HAS_OPENBLAS
    std::is_same_v<TA, TB> && std::is_same_v<TA, TC> &&
    (std::is_same_v<TA, double> || std::is_same_v<TA, float>);
#else
    false;
#endif

#if KRAMA_HAS_OPENBLAS
inline int blas_int(std::int64_t v) {
  KRAMA_EXPECTS(v <= std::numeric_limits<int>::max(),
                "gemm: extent {} does not fit OpenBLAS' 32-bit integers", v);
  return static_cast<int>(v);
}

/// C = alpha op(A) op(B) + beta C by OpenBLAS; a bias is the caller's business.
template <class T>
void gemm_openblas(const GemmArgs<T, T, T>& g) {
  const auto op = [](Op o) { return o == Op::none ? CblasNoTrans : CblasTrans; };
  const int m = blas_int(g.m);
  const int n = blas_int(g.n);
  const int k = blas_int(g.k);
  const int lda = blas_int(g.lda);
  const int ldb = blas_int(g.ldb);
  const int ldc = blas_int(g.ldc);
  if constexpr (std::is_same_v<T, double>) {
    cblas_dgemm(CblasRowMajor, op(g.ta), op(g.tb), m, n, k, g.alpha, g.a, lda, g.b, ldb, g.beta,
                g.c, ldc);
  } else {
    cblas_sgemm(CblasRowMajor, op(g.ta), op(g.tb), m, n, k, g.alpha, g.a, lda, g.b, ldb, g.beta,
                g.c, ldc);
  }
}
#endif

}  // namespace krama::kernels::detail
