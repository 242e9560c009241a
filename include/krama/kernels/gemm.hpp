// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

#include <krama/core/concepts.hpp>
#include <krama/definitions.hpp>
#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kernels/detail/gemm_cublas.hpp>
#include <krama/kernels/detail/gemm_device.hpp>
#include <krama/kernels/detail/gemm_hipblas.hpp>
#include <krama/kernels/detail/gemm_host.hpp>
#include <krama/kernels/detail/gemm_portable.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Dense products: one door, several ways through it (oneDNN and OpenBLAS on hosts, cuBLAS and
/// hipBLAS on devices, Krama's own kernels everywhere). All row-major. Sums are kept in `accum_t`; C
/// may be of A's type or, for half types, float.
namespace krama::kernels {

namespace detail {

/// On devices: the vendor's library where it was found and takes the product, else Krama's kernel.
template <ExecutionSpace E, class T, class TC>
void gemm_on_device(const E& exec, const GemmArgs<T, T, TC>& first, const BatchStrides& strides,
                    std::int64_t batch) {
  const bool own = chosen_gemm_door() == GemmDoor::portable;
  if (own || !gemm_device(exec, first, strides, batch)) gemm_portable(exec, first, strides, batch);
}

template <ExecutionSpace E, class T, class TC>
void gemm_any(const E& exec, const GemmArgs<T, T, TC>& g) {
  if (g.m == 0 || g.n == 0) return;
  if constexpr (kokkos_ext::is_host_space<E>) {
    gemm_on_host(exec, g);
  } else {
    gemm_on_device(exec, g, {}, 1);
  }
}

template <ExecutionSpace E, class T, class TC>
void gemm_batched(const E& exec, const GemmArgs<T, T, TC>& first, const BatchStrides& strides,
                  std::int64_t batch) {
  if (first.m == 0 || first.n == 0 || batch <= 0) return;
  if constexpr (kokkos_ext::is_host_space<E>) {
    gemms_on_host(exec, first, strides, batch);
  } else {
    gemm_on_device(exec, first, strides, batch);
  }
}

template <class TA, class TB, class TC>
void check_types() {
  static_assert(std::is_same_v<TA, TB>, "gemm: A and B must have the same element type");
  static_assert(std::is_same_v<TC, TA> || std::is_same_v<TC, accum_t<TA>>,
                "gemm: C must have A's element type or its accumulator's");
}

}  // namespace detail

/// C (m,n) = alpha op(A) op(B) + beta C with leading dimensions (elements between rows). A is (m,k),
/// or (k,m) when transposed; B is (k,n) or (n,k). `beta == 0`: C is only written. C must not overlap
/// A or B. Asynchronous on `exec`. Inside a host parallel region it runs on the calling thread alone.
template <ExecutionSpace E, class TA, class TB, class TC>
void gemm_strided(const E& exec, Op ta, Op tb, std::int64_t m, std::int64_t n, std::int64_t k,
                  accum_t<TC> alpha, const TA* a, std::int64_t lda, const TB* b, std::int64_t ldb,
                  accum_t<TC> beta, TC* c, std::int64_t ldc) {
  detail::check_types<TA, TB, TC>();
  detail::gemm_any(exec, detail::GemmArgs<TA, TA, TC>{ta, tb, m, n, k, alpha, a, lda, b, ldb, beta,
                                                      c, ldc, nullptr});
}

/// `batch` products of one shape, stride elements apart, several at a time. Asynchronous on `exec`.
template <ExecutionSpace E, class TA, class TB, class TC>
void batched_gemm_strided(const E& exec, Op ta, Op tb, std::int64_t m, std::int64_t n,
                          std::int64_t k, accum_t<TC> alpha, const TA* a, std::int64_t lda,
                          std::int64_t stride_a, const TB* b, std::int64_t ldb,
                          std::int64_t stride_b, accum_t<TC> beta, TC* c, std::int64_t ldc,
                          std::int64_t stride_c, std::int64_t batch) {
  detail::check_types<TA, TB, TC>();
  detail::gemm_batched(
      exec,
      detail::GemmArgs<TA, TA, TC>{ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, nullptr},
      detail::BatchStrides{stride_a, stride_b, stride_c}, batch);
}

/// The same on the calling host thread, at once: for kernels that share work among threads
/// themselves. Bits as the packed door's.
template <class TA, class TB, class TC>
void serial_gemm(Op ta, Op tb, std::int64_t m, std::int64_t n, std::int64_t k, accum_t<TC> alpha,
                 const TA* a, std::int64_t lda, const TB* b, std::int64_t ldb, accum_t<TC> beta,
                 TC* c, std::int64_t ldc) {
  detail::check_types<TA, TB, TC>();
  if (m == 0 || n == 0) return;
  detail::gemm_serial(
      detail::GemmArgs<TA, TA, TC>{ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, nullptr});
}

/// C (m,n) = alpha op(A) op(B) + beta C, packed row-major. Asynchronous on `exec`.
/// \throws Error naming the extents that do not fit.
template <ExecutionSpace E, class TA, class TB, class TC, MemorySpace M>
  requires AccessibleFrom<M, E>
void gemm(const E& exec, Op ta, Op tb, accum_t<TC> alpha, TensorRef<TA, 2, M> a,
          TensorRef<TB, 2, M> b, accum_t<TC> beta, TensorRef<TC, 2, M> c) {
  const std::int64_t m = c.extent(0);
  const std::int64_t n = c.extent(1);
  const std::int64_t k = a.extent(ta == Op::none ? 1 : 0);
  const bool fits = a.extent(ta == Op::none ? 0 : 1) == m &&
                    b.extent(tb == Op::none ? 0 : 1) == k && b.extent(tb == Op::none ? 1 : 0) == n;
  KRAMA_EXPECTS(fits, "gemm: C {} = {}{} {}{}: the extents do not fit", to_string(c.extents()),
                to_string(a.extents()), ta == Op::none ? "" : "^T", to_string(b.extents()),
                tb == Op::none ? "" : "^T");
  gemm_strided(exec, ta, tb, m, n, k, alpha, static_cast<const std::remove_const_t<TA>*>(a.data()),
               a.extent(1), static_cast<const std::remove_const_t<TB>*>(b.data()), b.extent(1),
               beta, c.data(), n);
}

/// y (rows,out) = x (rows,in) w^T + bias; w is (out,in), bias (out) may be null. Asynchronous on
/// `exec`.
template <ExecutionSpace E, class TX, class TW, class TB, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void linear_forward(const E& exec, TensorRef<TX, 2, M> x, TensorRef<TW, 2, M> w,
                    TensorRef<TB, 1, M> bias, TensorRef<T, 2, M> y) {
  const std::int64_t rows = x.extent(0);
  const std::int64_t in = x.extent(1);
  const std::int64_t out = w.extent(0);
  KRAMA_EXPECTS(w.extent(1) == in && y.extent(0) == rows && y.extent(1) == out &&
                    (bias.null() || bias.extent(0) == out),
                "linear_forward: x {}, w {}, bias {}, y {} do not fit", to_string(x.extents()),
                to_string(w.extents()), to_string(bias.extents()), to_string(y.extents()));
  using X = std::remove_const_t<TX>;
  using W = std::remove_const_t<TW>;
  detail::check_types<X, W, T>();
  detail::gemm_any(exec, detail::GemmArgs<X, X, T>{Op::none, Op::transpose, rows, out, in,
                                                   accum_t<T>{1}, x.data(), in, w.data(), in,
                                                   accum_t<T>{0}, y.data(), out, bias.data()});
}

namespace detail {
/// Column sums of one block of rows, or of the partial sums.
template <class T, class A>
struct BiasGrad {
  const T* dy;
  A* db;
  std::int64_t rows, cols;
  static constexpr std::int64_t width = 64;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t j0 = block * width;
    const std::int64_t jn = cols - j0 < width ? cols - j0 : width;
    A sum[width] = {};
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = dy + i * cols + j0;
      for (std::int64_t j = 0; j < jn; ++j) sum[j] += static_cast<A>(row[j]);
    }
    for (std::int64_t j = 0; j < jn; ++j) db[j0 + j] += sum[j];
  }
};
}  // namespace detail

/// db (out) += column sums of dy (rows,out). The order of additions depends on the shape alone, so
/// the bits do not depend on the number of threads. Asynchronous on `exec`.
template <ExecutionSpace E, class TY, class A, MemorySpace M>
  requires AccessibleFrom<M, E>
void bias_grad(const E& exec, TensorRef<TY, 2, M> dy, TensorRef<A, 1, M> db) {
  using T = std::remove_const_t<TY>;
  static_assert(std::is_same_v<A, accum_t<T>>, "bias_grad: db holds accumulators of dy's type");
  KRAMA_EXPECTS(dy.extent(1) == db.extent(0), "bias_grad: dy {} and db {} do not fit",
                to_string(dy.extents()), to_string(db.extents()));
  using Kernel = detail::BiasGrad<T, A>;
  kokkos_ext::launch(exec, "krama::kernels::bias_grad",
                     (dy.extent(1) + Kernel::width - 1) / Kernel::width,
                     Kernel{dy.data(), db.data(), dy.extent(0), dy.extent(1)});
}

KRAMA_INSTANCE(void detail::gemm_any(const exec_of<DefaultDevice>&,
                                     const detail::GemmArgs<float, float, float>&));
KRAMA_INSTANCE(void detail::gemm_batched(const exec_of<DefaultDevice>&,
                                         const detail::GemmArgs<float, float, float>&,
                                         const detail::BatchStrides&, std::int64_t));
KRAMA_INSTANCE(void detail::gemm_serial(const detail::GemmArgs<float, float, float>&));

}  // namespace krama::kernels
