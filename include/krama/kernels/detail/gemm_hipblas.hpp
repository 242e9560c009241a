// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/config.hpp>

#if KRAMA_HAS_HIPBLAS && defined(KOKKOS_ENABLE_HIP)
// hipBLAS 2 has the interface of hipBLAS 3 under this name.
#ifndef HIPBLAS_V2
#define HIPBLAS_V2
#endif
#include <hipblas/hipblas.h>

#include <krama/kernels/detail/gemm_device.hpp>
#include <krama/kokkos_ext/per_instance.hpp>

/// hipBLAS behind the door. Compiled against hipBLAS 2.4 (ROCm 6.4); not run yet.
///
/// On MI200 the matrix units flush subnormal numbers of half types to zero; small gradients in f16
/// want loss scaling there.
namespace krama::kernels::detail {

inline hipDataType hipblas_type(DType t) {
  switch (t) {
    case DType::f64:
      return HIP_R_64F;
    case DType::f32:
      return HIP_R_32F;
    case DType::bf16:
      return HIP_R_16BF;
    case DType::f16:
      return HIP_R_16F;
    default:
      throw Error(fmt::format("hipBLAS: no products of {}", name_of(t)));
  }
}
inline hipblasOperation_t hipblas_op(Op op) { return op == Op::none ? HIPBLAS_OP_N : HIPBLAS_OP_T; }

inline void hipblas_check(hipblasStatus_t status, const char* call) {
  KRAMA_EXPECTS(status == HIPBLAS_STATUS_SUCCESS, "{} failed: {}", call,
                hipblasStatusToString(status));
}
template <class A>
void hipblas_check(hipblasStatus_t status, const char* call, const ColumnMajorGemm<A>& p) {
  KRAMA_EXPECTS(status == HIPBLAS_STATUS_SUCCESS, "{} failed: {}; the product is {}", call,
                hipblasStatusToString(status), describe(p));
}

/// A handle whose work goes to the stream of one instance. Its workspace is rocBLAS' own, which grows
/// with the largest product (ROCBLAS_DEVICE_MEMORY_SIZE fixes it): hipBLAS 2 cannot be given one.
class Hipblas {
 public:
  explicit Hipblas(const Kokkos::HIP& exec) {
    const kokkos_ext::CurrentDevice here(exec);
    hipblas_check(hipblasCreate(&handle_), "hipblasCreate");
    try {
      hipblas_check(hipblasSetStream(handle_, kokkos_ext::native_stream(exec)), "hipblasSetStream");
      hipblas_check(hipblasSetPointerMode(handle_, HIPBLAS_POINTER_MODE_HOST),
                    "hipblasSetPointerMode");
      // rocBLAS allows atomics unless told: two runs would differ in bits.
      hipblas_check(hipblasSetAtomicsMode(handle_, HIPBLAS_ATOMICS_NOT_ALLOWED),
                    "hipblasSetAtomicsMode");
    } catch (...) {
      static_cast<void>(hipblasDestroy(handle_));
      throw;
    }
  }
  ~Hipblas() { static_cast<void>(hipblasDestroy(handle_)); }
  Hipblas(const Hipblas&) = delete;
  Hipblas& operator=(const Hipblas&) = delete;

  /// AMD's name for TF32 is XF32, and it is a mode of the handle.
  hipblasHandle_t in_mode(BlasCompute compute) {
    const hipblasMath_t wanted =
        compute == BlasCompute::tf32 ? HIPBLAS_XF32_XDL_MATH : HIPBLAS_DEFAULT_MATH;
    if (wanted != mode_) {
      hipblas_check(hipblasSetMathMode(handle_, wanted), "hipblasSetMathMode");
      mode_ = wanted;
    }
    return handle_;
  }

 private:
  hipblasHandle_t handle_ = nullptr;
  hipblasMath_t mode_ = HIPBLAS_DEFAULT_MATH;
};

template <>
struct DeviceBlas<Kokkos::HIP> {
  static constexpr bool exists = true;

  template <class A>
  static void run(const Kokkos::HIP& exec, const ColumnMajorGemm<A>& p) {
    const kokkos_ext::CurrentDevice here(exec);
    const hipblasHandle_t handle =
        kokkos_ext::PerInstance<Kokkos::HIP, Hipblas>::of(exec).in_mode(p.compute);
    const hipDataType in = hipblas_type(p.in);
    const hipDataType out = hipblas_type(p.out);
    const hipblasComputeType_t compute =
        p.compute == BlasCompute::f64 ? HIPBLAS_COMPUTE_64F : HIPBLAS_COMPUTE_32F;
    if (p.batch == 1) {
      hipblas_check(
          hipblasGemmEx(handle, hipblas_op(p.op_first), hipblas_op(p.op_second), p.m, p.n, p.k,
                        &p.alpha, p.first, in, p.ld_first, p.second, in, p.ld_second, &p.beta,
                        p.result, out, p.ld_result, compute, HIPBLAS_GEMM_DEFAULT),
          "hipblasGemmEx", p);
      return;
    }
    hipblas_check(hipblasGemmStridedBatchedEx(
                      handle, hipblas_op(p.op_first), hipblas_op(p.op_second), p.m, p.n, p.k,
                      &p.alpha, p.first, in, p.ld_first, p.stride_first, p.second, in, p.ld_second,
                      p.stride_second, &p.beta, p.result, out, p.ld_result, p.stride_result,
                      p.batch, compute, HIPBLAS_GEMM_DEFAULT),
                  "hipblasGemmStridedBatchedEx", p);
  }

  /// hipBLAS has no epilogues.
  template <class A>
  static bool run_with_bias(const Kokkos::HIP&, const ColumnMajorGemm<A>&, const void*) {
    return false;
  }
};

}  // namespace krama::kernels::detail
#endif
