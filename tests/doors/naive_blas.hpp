// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstring>

#include <krama/core/dtype.hpp>
#include <krama/kernels/detail/column_major.hpp>

/// What cuBLAS and hipBLAS are documented to do with the arguments of a call, one element at a time:
/// matrices by columns, element (i, j) of one at i + j ld.
namespace doors_test {

using krama::DType;
using krama::kernels::Op;
using krama::kernels::detail::ColumnMajorGemm;

inline double load(const void* data, DType type, std::int64_t at) {
  const char* p = static_cast<const char*>(data) + at * krama::size_of(type);
  const auto as = [p]<class T>(T v) {
    std::memcpy(&v, p, sizeof(T));
    return static_cast<double>(static_cast<krama::accum_t<T>>(v));
  };
  switch (type) {
    case DType::f64:
      return as(double{});
    case DType::f32:
      return as(float{});
    case DType::bf16:
      return as(krama::bf16{});
    case DType::f16:
      return as(krama::f16{});
    default:
      throw krama::Error("naive BLAS: not a type of products");
  }
}

inline void store(void* data, DType type, std::int64_t at, double value) {
  char* p = static_cast<char*>(data) + at * krama::size_of(type);
  const auto as = [p](auto v) { std::memcpy(p, &v, sizeof(v)); };
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case DType::f64:
      return as(value);
    case DType::f32:
      return as(narrow);
    case DType::bf16:
      return as(krama::bf16(narrow));
    case DType::f16:
      return as(krama::f16(narrow));
    default:
      throw krama::Error("naive BLAS: not a type of products");
  }
}

/// The call, with the checks of arguments that the libraries are documented to make. `bias`: one
/// element of the result's type for each of the m rows, or null.
template <class A>
void naive_blas(const ColumnMajorGemm<A>& p, const void* bias = nullptr) {
  const auto refuse = [](bool wrong, const char* what) {
    if (wrong) throw krama::Error(std::string("naive BLAS: invalid value: ") + what);
  };
  refuse(p.m < 1 || p.n < 1 || p.k < 1 || p.batch < 1, "extents");
  refuse(p.ld_first < (p.op_first == Op::none ? p.m : p.k), "lda");
  refuse(p.ld_second < (p.op_second == Op::none ? p.k : p.n), "ldb");
  refuse(p.ld_result < p.m, "ldc");
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        double sum = 0;
        for (std::int64_t q = 0; q < p.k; ++q) {
          const std::int64_t x = p.op_first == Op::none ? i + q * p.ld_first : q + i * p.ld_first;
          const std::int64_t y =
              p.op_second == Op::none ? q + j * p.ld_second : j + q * p.ld_second;
          sum += load(p.first, p.in, b * p.stride_first + x) *
                 load(p.second, p.in, b * p.stride_second + y);
        }
        const std::int64_t at = b * p.stride_result + i + j * p.ld_result;
        double value = static_cast<double>(p.alpha) * sum;
        if (p.beta != A{0}) value += static_cast<double>(p.beta) * load(p.result, p.out, at);
        if (bias != nullptr) value += load(bias, p.out, i);
        store(p.result, p.out, at, value);
      }
    }
  }
}

}  // namespace doors_test
