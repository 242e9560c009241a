// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kernels/detail/gemm_batched.hpp>
#include <krama/kernels/detail/gemm_onednn.hpp>
#include <krama/kernels/detail/gemm_openblas.hpp>
#include <krama/kernels/detail/gemm_packed.hpp>
#include <krama/kernels/detail/gemm_portable.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

/// Dense products: one door, several ways through it (oneDNN, OpenBLAS, Krama's own kernel). All
/// row-major. Sums are kept in `accum_t`; C may be of A's type or, for half types, float.
namespace krama::kernels {

namespace detail {

/// Multiply-adds of a 48^3 product.
inline constexpr std::int64_t tiny_work = 48 * 48 * 48;

/// Vendor libraries work on the host's OpenMP threads.
template <ExecutionSpace E>
inline constexpr bool vendor_space =
#ifdef KOKKOS_ENABLE_OPENMP
    std::is_same_v<E, Kokkos::OpenMP>;
#else
    false;
#endif

#ifdef KOKKOS_ENABLE_OPENMP
/// Threads that a library called from here will use: the instance's, or one inside a parallel region.
class VendorThreads {
 public:
  explicit VendorThreads(int wanted) : before_(omp_get_max_threads()) {
    if (omp_in_parallel() != 0) {
      threads_ = 1;
    } else {
      threads_ = wanted;
      if (wanted != before_) omp_set_num_threads(wanted);
    }
  }
  ~VendorThreads() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  VendorThreads(const VendorThreads&) = delete;
  VendorThreads& operator=(const VendorThreads&) = delete;
  [[nodiscard]] int count() const { return threads_; }

 private:
  int before_;
  int threads_ = 1;
};
#endif

/// Called from a thread of a running kernel: no new threads may be started.
template <ExecutionSpace E>
bool inside_parallel_region() {
#ifdef KOKKOS_ENABLE_OPENMP
  return omp_in_parallel() != 0;
#else
  return false;
#endif
}

/// Whether `E` may take the portable product: devices do, hosts where it is compiled for them.
template <ExecutionSpace E>
inline constexpr bool takes_portable = !kokkos_ext::is_host_space<E> || KRAMA_PORTABLE_GEMM;

/// Whether the packed product is compiled for the widest registers, where it leads.
inline constexpr bool packed_is_widest =
#if KRAMA_PACKED_GEMM
    vector_bytes == 64;
#else
    false;
#endif

/// The packed product's best range of k where the code is compiled for AVX-512: panels that stay in
/// the first cache. Measured with `bench_gemm "" 0.8 doors`.
inline bool packed_range(std::int64_t k) { return k >= 32 && k <= 192; }

/// The rule: which door a product takes when nobody forces one. Fixed, so that a job computes the
/// same bits every time. OpenBLAS has the least overhead for tiny products; oneDNN has kernels for
/// the half types' own instructions and picks its instruction set when the program runs; the packed
/// product is ahead of both in its range, for transposed A in batches (`of_batch`), and for f64 where
/// the code is compiled for AVX-512.
template <ExecutionSpace E, class T, class TC>
GemmDoor gemm_rule(const GemmArgs<T, T, TC>& g, bool of_batch) {
  if constexpr (!kokkos_ext::is_host_space<E>) return GemmDoor::portable;
  if constexpr (!vendor_space<E>) return GemmDoor::packed;
  const std::int64_t work = g.m * g.n * g.k;
  if constexpr (openblas_takes<T, T, TC>) {
    const bool small = work <= (g.n < 16 ? tiny_work : 2 * tiny_work);
    if (small && g.bias == nullptr && !of_batch) return GemmDoor::openblas;
  }
  if constexpr (onednn_takes<T, T, TC>) {
    if constexpr (sizeof(T) == 2) {
      return work >= 4 * tiny_work ? GemmDoor::onednn : GemmDoor::packed;
    }
    const bool transposed_batch = of_batch && g.ta == Op::transpose;
    const bool packed_leads = packed_is_widest && (packed_range(g.k) || transposed_batch);
    if (!packed_leads) return GemmDoor::onednn;
  }
  if constexpr (packed_is_widest) return GemmDoor::packed;
  return openblas_takes<T, T, TC> ? GemmDoor::openblas : GemmDoor::packed;
}

/// C += bias along rows, for doors that cannot fuse it.
template <class TB, class TC>
struct AddBias {
  TC* c;
  std::int64_t n, ldc;
  const TB* bias;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    for (std::int64_t j = 0; j < n; ++j) {
      c[i * ldc + j] = static_cast<TC>(static_cast<accum_t<TC>>(c[i * ldc + j]) +
                                       static_cast<accum_t<TC>>(bias[j]));
    }
  }
};

/// Tries a library; false when it does not do this product.
template <ExecutionSpace E, class T, class TC>
bool gemm_vendor(const E& exec, GemmDoor door, const GemmArgs<T, T, TC>& g) {
#ifdef KOKKOS_ENABLE_OPENMP
  if constexpr (vendor_space<E>) {
    const bool done = kokkos_ext::library_call(exec, "krama::kernels::gemm", [&] {
      const VendorThreads threads(exec.concurrency());
      if constexpr (onednn_takes<T, T, TC>) {
        if (door == GemmDoor::onednn) return gemm_onednn(g, threads.count());
      }
      if constexpr (openblas_takes<T, T, TC>) {
        if (door == GemmDoor::openblas) {
          gemm_openblas(g);
          return true;
        }
      }
      return false;
    });
    if (done && g.bias != nullptr && door == GemmDoor::openblas) {
      kokkos_ext::launch(exec, "krama::kernels::add_bias", g.m,
                         AddBias<T, TC>{g.c, g.n, g.ldc, g.bias});
    }
    return done;
  }
#endif
  return false;
}

/// On the calling thread, without Kokkos; hosts only.
template <class T, class TC>
void gemm_serial(const GemmArgs<T, T, TC>& g) {
#if KRAMA_PACKED_GEMM
  packed_block(g, 0, g.m, 0, g.n);
#else
  using A = accum_t<TC>;
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      A sum = 0;
      for (std::int64_t p = 0; p < g.k; ++p) {
        sum += static_cast<A>(g.a[g.ta == Op::none ? i * g.lda + p : p * g.lda + i]) *
               static_cast<A>(g.b[g.tb == Op::none ? p * g.ldb + j : j * g.ldb + p]);
      }
      A v = g.alpha * sum;
      if (g.bias != nullptr) v += static_cast<A>(g.bias[j]);
      if (g.beta != A{0}) v += g.beta * static_cast<A>(g.c[i * g.ldc + j]);
      g.c[i * g.ldc + j] = static_cast<TC>(v);
    }
  }
#endif
}

template <ExecutionSpace E, class T, class TC>
void gemm_any(const E& exec, const GemmArgs<T, T, TC>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (inside_parallel_region<E>()) return gemm_serial(g);
  GemmDoor door = chosen_gemm_door();
  if (door == GemmDoor::automatic) door = gemm_rule<E>(g, false);
  if (g.k > 0 && (door == GemmDoor::onednn || door == GemmDoor::openblas)) {
    if (gemm_vendor(exec, door, g)) return;
    door = GemmDoor::packed;
  }
#if KRAMA_PACKED_GEMM
  if constexpr (kokkos_ext::is_host_space<E>) {
    if (door == GemmDoor::packed || !takes_portable<E>) {
      return gemm_packed(exec, g, exec.concurrency());
    }
  }
#endif
  if constexpr (takes_portable<E>) gemm_portable(exec, g);
}

template <ExecutionSpace E, class T, class TC>
void gemm_batched(const E& exec, const GemmArgs<T, T, TC>& first, const BatchStrides& strides,
                  std::int64_t batch) {
  if (first.m == 0 || first.n == 0 || batch <= 0) return;
  if (inside_parallel_region<E>()) {
    for (std::int64_t i = 0; i < batch; ++i) gemm_serial(product_of_batch(first, strides, i));
    return;
  }
  GemmDoor door = chosen_gemm_door();
  const bool free = door == GemmDoor::automatic;
  if (free) door = gemm_rule<E>(first, true);
  if (door == GemmDoor::portable && !takes_portable<E>) door = GemmDoor::packed;
  if constexpr (kokkos_ext::is_host_space<E>) {
#if KRAMA_PACKED_GEMM
    const std::int64_t threads = exec.concurrency();
    if (shared_by_products(batch, threads) && (free || door != GemmDoor::openblas) &&
        door != GemmDoor::portable) {
      if (door == GemmDoor::openblas) door = GemmDoor::packed;
      gemm_batched_on_host(exec, first, strides, batch, door, threads);
      return;
    }
#endif
    if (door != GemmDoor::portable) {
      for (std::int64_t i = 0; i < batch; ++i) gemm_any(exec, product_of_batch(first, strides, i));
      return;
    }
  }
  if constexpr (takes_portable<E>) gemm_portable(exec, first, strides, batch);
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

}  // namespace krama::kernels
