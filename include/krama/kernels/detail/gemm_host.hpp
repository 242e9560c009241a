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

#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

/// Products on host cores: the rule between the libraries and Krama's own kernel, and the way there.
namespace krama::kernels::detail {

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
inline bool inside_parallel_region() {
#ifdef KOKKOS_ENABLE_OPENMP
  return omp_in_parallel() != 0;
#else
  return false;
#endif
}

/// Whether hosts may take the portable product: where it is compiled for them.
inline constexpr bool takes_portable = KRAMA_PORTABLE_GEMM;

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

/// The rule for hosts: which door a product takes when nobody forces one. Fixed, so that a job
/// computes the same bits every time. OpenBLAS has the least overhead for tiny products; oneDNN has
/// kernels for the half types' own instructions and picks its instruction set when the program runs;
/// the packed product is ahead of both in its range, for transposed A in batches (`of_batch`), and for
/// f64 where the code is compiled for AVX-512.
template <ExecutionSpace E, class T, class TC>
GemmDoor gemm_rule(const GemmArgs<T, T, TC>& g, bool of_batch) {
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

/// Tries a host library; false when it does not do this product.
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
void gemm_on_host(const E& exec, const GemmArgs<T, T, TC>& g) {
  if (inside_parallel_region()) return gemm_serial(g);
  GemmDoor door = chosen_gemm_door();
  if (door == GemmDoor::automatic) door = gemm_rule<E>(g, false);
  if (g.k > 0 && (door == GemmDoor::onednn || door == GemmDoor::openblas)) {
    if (gemm_vendor(exec, door, g)) return;
    door = GemmDoor::packed;
  }
#if KRAMA_PACKED_GEMM
  if (door == GemmDoor::packed || !takes_portable) {
    return gemm_packed(exec, g, exec.concurrency());
  }
#endif
  if constexpr (takes_portable) gemm_portable(exec, g);
}

template <ExecutionSpace E, class T, class TC>
void gemms_on_host(const E& exec, const GemmArgs<T, T, TC>& first, const BatchStrides& strides,
                   std::int64_t batch) {
  if (inside_parallel_region()) {
    for (std::int64_t i = 0; i < batch; ++i) gemm_serial(product_of_batch(first, strides, i));
    return;
  }
  GemmDoor door = chosen_gemm_door();
  const bool free = door == GemmDoor::automatic;
  if (free) door = gemm_rule<E>(first, true);
  if (door == GemmDoor::portable && !takes_portable) door = GemmDoor::packed;
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
    for (std::int64_t i = 0; i < batch; ++i) {
      gemm_on_host(exec, product_of_batch(first, strides, i));
    }
    return;
  }
  if constexpr (takes_portable) gemm_portable(exec, first, strides, batch);
}

}  // namespace krama::kernels::detail
