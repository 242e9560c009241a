// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/config.hpp>

#if KRAMA_HAS_CUBLAS && defined(KOKKOS_ENABLE_CUDA)
#include <cstddef>
#include <cstdint>
#include <cublas_v2.h>
#include <string>

#include <krama/kernels/detail/column_major.hpp>
#include <krama/kokkos_ext/native.hpp>
#include <krama/tensor/tensor.hpp>

/// What the doors to cuBLAS and cuBLASLt share: names of types, checks, and one handle for each
/// execution-space instance.
namespace krama::kernels::detail {

inline cudaDataType_t cublas_type(DType t) {
  switch (t) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Error(fmt::format("cuBLAS: no products of {}", name_of(t)));
  }
}
inline cublasComputeType_t cublas_compute(BlasCompute c) {
  switch (c) {
    case BlasCompute::f64:
      return CUBLAS_COMPUTE_64F;
    case BlasCompute::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case BlasCompute::f32:
      break;
  }
  return CUBLAS_COMPUTE_32F;
}
inline cublasOperation_t cublas_op(Op op) { return op == Op::none ? CUBLAS_OP_N : CUBLAS_OP_T; }

inline void cublas_check(cublasStatus_t status, const char* call) {
  KRAMA_EXPECTS(status == CUBLAS_STATUS_SUCCESS, "{} failed: {} ({})", call,
                cublasGetStatusString(status), cublasGetStatusName(status));
}
template <class A>
void cublas_check(cublasStatus_t status, const char* call, const ColumnMajorGemm<A>& p) {
  KRAMA_EXPECTS(status == CUBLAS_STATUS_SUCCESS, "{} failed: {} ({}); the product is {}", call,
                cublasGetStatusString(status), cublasGetStatusName(status), describe(p));
}

/// A handle whose work goes to the stream of one instance, with a workspace of its own. The same
/// product then gives the same bits whatever other instances do.
///
/// The workspace is not from a plan's arena: kernels know nothing of arenas, and a handle outlives
/// the plans of several models. It is one allocation of Krama's, labelled and seen by Kokkos' tools,
/// of a fixed size that a budget can leave room for.
class Cublas {
 public:
  /// NVIDIA's advice for Hopper; older devices need less.
  static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

  explicit Cublas(const Kokkos::Cuda& exec)
      : memory_(exec, "krama::kernels::cublas: workspace", {workspace_bytes + alignment}) {
    const kokkos_ext::CurrentDevice here(exec);
    cublas_check(cublasCreate(&handle_), "cublasCreate");
    try {
      cublas_check(cublasSetStream(handle_, kokkos_ext::native_stream(exec)), "cublasSetStream");
      // After the stream: setting one takes the workspace away.
      cublas_check(cublasSetWorkspace(handle_, workspace(), std::size_t{workspace_bytes}),
                   "cublasSetWorkspace");
      cublas_check(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode");
      cublas_check(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED),
                   "cublasSetAtomicsMode");
      // Partial sums of half types stay in f32 too; by default they may be added in the half type.
      cublas_check(
          cublasSetMathMode(
              handle_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                 CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
          "cublasSetMathMode");
    } catch (...) {
      cublasDestroy(handle_);
      throw;
    }
  }
  ~Cublas() { cublasDestroy(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  [[nodiscard]] cublasHandle_t get() const { return handle_; }

  /// Aligned for cuBLAS; Kokkos' memory begins on half of that.
  [[nodiscard]] void* workspace() const {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    constexpr auto unit = static_cast<std::uintptr_t>(alignment);
    return memory_.data() + ((unit - at % unit) % unit);
  }

 private:
  static constexpr std::int64_t alignment = 256;

  Tensor<std::byte, 1, Kokkos::CudaSpace> memory_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace krama::kernels::detail
#endif
