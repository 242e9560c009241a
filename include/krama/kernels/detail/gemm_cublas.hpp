// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/config.hpp>

#if KRAMA_HAS_CUBLAS && defined(KOKKOS_ENABLE_CUDA)
#include <cublas_v2.h>
#include <string>

#include <krama/kernels/detail/cublas_bias.hpp>
#include <krama/kernels/detail/cublas_handle.hpp>
#include <krama/kernels/detail/gemm_device.hpp>
#include <krama/kokkos_ext/per_instance.hpp>

/// cuBLAS behind the door. Compiled against CUDA 13; not run yet.
namespace krama::kernels::detail {

template <>
struct DeviceBlas<Kokkos::Cuda> {
  static constexpr bool exists = true;

  template <class A>
  static void run(const Kokkos::Cuda& exec, const ColumnMajorGemm<A>& p) {
    const kokkos_ext::CurrentDevice here(exec);
    const cublasHandle_t handle = kokkos_ext::PerInstance<Kokkos::Cuda, Cublas>::of(exec).get();
    const cudaDataType_t in = cublas_type(p.in);
    const cudaDataType_t out = cublas_type(p.out);
    if (p.batch == 1) {
      cublas_check(
          cublasGemmEx(handle, cublas_op(p.op_first), cublas_op(p.op_second), p.m, p.n, p.k,
                       &p.alpha, p.first, in, p.ld_first, p.second, in, p.ld_second, &p.beta,
                       p.result, out, p.ld_result, cublas_compute(p.compute), CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx", p);
      return;
    }
    cublas_check(cublasGemmStridedBatchedEx(
                     handle, cublas_op(p.op_first), cublas_op(p.op_second), p.m, p.n, p.k, &p.alpha,
                     p.first, in, p.ld_first, p.stride_first, p.second, in, p.ld_second,
                     p.stride_second, &p.beta, p.result, out, p.ld_result, p.stride_result, p.batch,
                     cublas_compute(p.compute), CUBLAS_GEMM_DEFAULT),
                 "cublasGemmStridedBatchedEx", p);
  }

  template <class A>
  static bool run_with_bias(const Kokkos::Cuda& exec, const ColumnMajorGemm<A>& p,
                            const void* bias) {
    const kokkos_ext::CurrentDevice here(exec);
    Cublas& blas = kokkos_ext::PerInstance<Kokkos::Cuda, Cublas>::of(exec);
    return kokkos_ext::PerInstance<Kokkos::Cuda, CublasBias>::of(exec).run(blas, p, bias);
  }
};

}  // namespace krama::kernels::detail
#endif
