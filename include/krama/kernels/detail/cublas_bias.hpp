// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/config.hpp>

#if KRAMA_HAS_CUBLAS && defined(KOKKOS_ENABLE_CUDA)
#include <algorithm>
#include <compare>
#include <cstdint>
#include <cublasLt.h>
#include <map>
#include <memory>
#include <type_traits>

#include <krama/kernels/detail/cublas_handle.hpp>

/// Products with a bias in cuBLASLt's epilogue. What cuBLASLt chooses for a shape is kept for each
/// instance, so that a shape is looked up once.
///
/// Its epilogues for activations are not used: layers keep what an activation reads for backward,
/// which an epilogue would not store.
namespace krama::kernels::detail {

template <class Handle, cublasStatus_t (*Destroy)(Handle)>
struct CublasLtDelete {
  void operator()(Handle handle) const { Destroy(handle); }
};
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
using CublasLtHandle =
    std::unique_ptr<std::remove_pointer_t<Handle>, CublasLtDelete<Handle, Destroy>>;
using CublasLtDesc = CublasLtHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using CublasLtLayout = CublasLtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using CublasLtPreference =
    CublasLtHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// Everything that the choice of an algorithm depends on.
struct CublasBiasKey {
  int m, n, k, ld_first, ld_second, ld_result;
  Op op_first, op_second;
  DType in, out;
  BlasCompute compute;
  std::uint32_t align_first, align_second, align_result;  ///< bytes, at most 256
  auto operator<=>(const CublasBiasKey&) const = default;
};

/// A described product and the algorithm chosen for it; `desc` is null when there is none.
struct CublasBiasPlan {
  CublasLtDesc desc;
  CublasLtLayout first, second, result;
  cublasLtMatmulAlgo_t algo{};
};

class CublasBias {
 public:
  explicit CublasBias(const Kokkos::Cuda& exec) : stream_(kokkos_ext::native_stream(exec)) {}

  /// \return false when cuBLASLt has no algorithm for the product
  template <class A>
  bool run(const Cublas& blas, const ColumnMajorGemm<A>& p, const void* bias) {
    const CublasBiasKey key{p.m,
                            p.n,
                            p.k,
                            p.ld_first,
                            p.ld_second,
                            p.ld_result,
                            p.op_first,
                            p.op_second,
                            p.in,
                            p.out,
                            p.compute,
                            alignment_of(p.first),
                            alignment_of(p.second),
                            alignment_of(p.result)};
    const auto lt = reinterpret_cast<cublasLtHandle_t>(blas.get());  // one is the other
    const auto [at, is_new] = plans_.try_emplace(key);
    if (is_new) {
      try {
        at->second = make(lt, key, p, bias);
      } catch (...) {
        plans_.erase(at);
        throw;
      }
    }
    CublasBiasPlan& plan = at->second;
    if (plan.desc == nullptr) return false;
    set(plan.desc.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    cublas_check(cublasLtMatmul(lt, plan.desc.get(), &p.alpha, p.first, plan.first.get(), p.second,
                                plan.second.get(), &p.beta, p.result, plan.result.get(), p.result,
                                plan.result.get(), &plan.algo, blas.workspace(),
                                std::size_t{Cublas::workspace_bytes}, stream_),
                 "cublasLtMatmul", p);
    return true;
  }

 private:
  static std::uint32_t alignment_of(const void* p) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return static_cast<std::uint32_t>(std::min<std::uintptr_t>(at & (~at + 1), 256));
  }
  template <class V>
  static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const V& value) {
    cublas_check(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  }
  template <class V>
  static void set(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t name,
                  const V& value) {
    cublas_check(cublasLtMatmulPreferenceSetAttribute(p, name, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  static CublasLtLayout layout(DType type, bool transposed, int rows, int columns, int ld) {
    cublasLtMatrixLayout_t raw = nullptr;
    cublas_check(
        cublasLtMatrixLayoutCreate(&raw, cublas_type(type),
                                   static_cast<std::uint64_t>(transposed ? columns : rows),
                                   static_cast<std::uint64_t>(transposed ? rows : columns), ld),
        "cublasLtMatrixLayoutCreate");
    return CublasLtLayout(raw);
  }

  template <class A>
  static CublasBiasPlan make(cublasLtHandle_t lt, const CublasBiasKey& key,
                             const ColumnMajorGemm<A>& p, const void* bias) {
    CublasBiasPlan plan;
    cublasLtMatmulDesc_t desc = nullptr;
    cublas_check(cublasLtMatmulDescCreate(&desc, cublas_compute(p.compute),
                                          std::is_same_v<A, double> ? CUDA_R_64F : CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    plan.desc.reset(desc);
    set(desc, CUBLASLT_MATMUL_DESC_TRANSA, cublas_op(p.op_first));
    set(desc, CUBLASLT_MATMUL_DESC_TRANSB, cublas_op(p.op_second));
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    plan.first = layout(p.in, p.op_first == Op::transpose, p.m, p.k, p.ld_first);
    plan.second = layout(p.in, p.op_second == Op::transpose, p.k, p.n, p.ld_second);
    plan.result = layout(p.out, false, p.m, p.n, p.ld_result);

    cublasLtMatmulPreference_t raw = nullptr;
    cublas_check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
    const CublasLtPreference preference(raw);
    set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(Cublas::workspace_bytes));
    // Partial sums stay in the accumulator's type.
    set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.align_first);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.align_second);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.align_result);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.align_result);

    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        lt, desc, plan.first.get(), plan.second.get(), plan.result.get(), plan.result.get(), raw, 1,
        &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
      plan.desc.reset();
      return plan;
    }
    cublas_check(status, "cublasLtMatmulAlgoGetHeuristic", p);
    plan.algo = found.algo;
    return plan;
  }

  cudaStream_t stream_;
  std::map<CublasBiasKey, CublasBiasPlan> plans_;
};

}  // namespace krama::kernels::detail
#endif
