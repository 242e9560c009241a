// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include <krama/core/dtype.hpp>
#include <krama/core/error.hpp>
#include <krama/kernels/detail/gemm_args.hpp>

/// What a column-major library (cuBLAS, hipBLAS) is asked for so that it computes a row-major
/// product. Free of vendors' headers, so that it is tested where there is no device.
///
/// A row-major matrix (r, c), read by columns, is its transpose (c, r) with the same leading
/// dimension. So instead of C = op(A) op(B) the library makes C^T = op(B)^T op(A)^T: its first matrix
/// is our B, its second our A, and m and n change places. Each matrix keeps its op: B as stored is
/// read as B^T, which already is op(B)^T when op(B) = B, and is transposed once more when op(B) = B^T.
/// Leading dimensions and strides stay. A bias, one number for each of our columns, is one for each
/// of the library's rows, which is what its epilogues add.
namespace krama::kernels::detail {

/// The arithmetic of a product: always in the accumulator's type; tf32 rounds the factors first.
enum class BlasCompute : std::uint8_t { f64, f32, tf32 };

/// result (m,n) = alpha op(first) op(second) + beta result, by columns, `batch` times. The scalars
/// are of type A, on the host. `beta == 0`: the result is only written.
template <class A>
struct ColumnMajorGemm {
  Op op_first = Op::none;
  Op op_second = Op::none;
  int m = 0;
  int n = 0;
  int k = 0;
  A alpha = 1;
  const void* first = nullptr;
  int ld_first = 0;
  std::int64_t stride_first = 0;  ///< elements from one product's matrix to the next
  const void* second = nullptr;
  int ld_second = 0;
  std::int64_t stride_second = 0;
  A beta = 0;
  void* result = nullptr;
  int ld_result = 0;
  std::int64_t stride_result = 0;
  int batch = 1;
  DType in = DType::f32;   ///< of both factors
  DType out = DType::f32;  ///< of the result
  BlasCompute compute = BlasCompute::f32;
};

inline constexpr std::int64_t blas_int_max = std::numeric_limits<int>::max();

/// A leading dimension that the library accepts: at least the length of a row, which is free where
/// there is no second row. None when rows overlap or the number is too large.
inline std::optional<int> leading(std::int64_t ld, std::int64_t rows, std::int64_t columns) {
  if (rows <= 1) ld = std::max(ld, columns);
  if (ld < columns || ld > blas_int_max) return std::nullopt;
  return static_cast<int>(ld);
}

/// The call for `batch` products of the form `g`, without its bias. None when the library does not
/// take them: no factors (k 0), rows that overlap, numbers that do not fit 32 bits.
template <class T, class TC>
std::optional<ColumnMajorGemm<accum_t<TC>>> column_major(const GemmArgs<T, T, TC>& g,
                                                         const BatchStrides& strides,
                                                         std::int64_t batch, bool tf32) {
  if (g.m < 1 || g.n < 1 || g.k < 1 || batch < 1) return std::nullopt;
  if (std::max({g.m, g.n, g.k, batch}) > blas_int_max) return std::nullopt;
  const bool ta = g.ta == Op::transpose;
  const bool tb = g.tb == Op::transpose;
  const auto lda = leading(g.lda, ta ? g.k : g.m, ta ? g.m : g.k);
  const auto ldb = leading(g.ldb, tb ? g.n : g.k, tb ? g.k : g.n);
  const auto ldc = leading(g.ldc, g.m, g.n);
  if (!lda || !ldb || !ldc) return std::nullopt;

  ColumnMajorGemm<accum_t<TC>> p;
  p.op_first = g.tb;
  p.op_second = g.ta;
  p.m = static_cast<int>(g.n);
  p.n = static_cast<int>(g.m);
  p.k = static_cast<int>(g.k);
  p.alpha = g.alpha;
  p.first = g.b;
  p.ld_first = *ldb;
  p.second = g.a;
  p.ld_second = *lda;
  p.beta = g.beta;
  p.result = g.c;
  p.ld_result = *ldc;
  p.batch = static_cast<int>(batch);
  if (batch > 1) {
    p.stride_first = strides.b;
    p.stride_second = strides.a;
    p.stride_result = strides.c;
  }
  p.in = dtype_of<T>;
  p.out = dtype_of<TC>;
  p.compute = std::is_same_v<T, double>          ? BlasCompute::f64
              : std::is_same_v<T, float> && tf32 ? BlasCompute::tf32
                                                 : BlasCompute::f32;
  return p;
}

/// The product in the caller's words, for errors.
template <class A>
std::string describe(const ColumnMajorGemm<A>& p) {
  const bool ta = p.op_second == Op::transpose;
  const bool tb = p.op_first == Op::transpose;
  std::string text = fmt::format(
      "C ({}, {}) = {} A ({}, {}){} B ({}, {}){} + {} C, {} into {}, leading dimensions {}, {}, {}",
      p.n, p.m, p.alpha, ta ? p.k : p.n, ta ? p.n : p.k, ta ? "^T" : "", tb ? p.m : p.k,
      tb ? p.k : p.m, tb ? "^T" : "", p.beta, name_of(p.in), name_of(p.out), p.ld_second,
      p.ld_first, p.ld_result);
  if (p.compute == BlasCompute::tf32) text += ", TF32";
  if (p.batch > 1) {
    text += fmt::format(", {} products with strides {}, {}, {}", p.batch, p.stride_second,
                        p.stride_first, p.stride_result);
  }
  return text;
}

}  // namespace krama::kernels::detail
