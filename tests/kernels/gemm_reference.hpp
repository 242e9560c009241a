// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <krama/core/random.hpp>
#include <krama/kernels/gemm.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/tensor/tensor.hpp>

#include "support/test_space.hpp"

/// The naive product in double, and what a test of a product consists of.
namespace gemm_test {

using krama::accum_t;
using krama::kernels::GemmDoor;
using krama::kernels::Op;
using Exec = krama::exec_of<TestDevice>;
using Mem = krama::mem_of<TestDevice>;

/// Values in [-1, 1), the same in every run.
template <class T>
std::vector<T> values(std::int64_t n, std::uint32_t stream) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<T>(2.0F * krama::uniform({7, stream, 0}, i) - 1.0F);
  }
  return v;
}

template <class T>
double wide(T v) {
  return static_cast<double>(static_cast<accum_t<T>>(v));
}

/// Relative error of storing a value as T.
template <class T>
constexpr double rounding() {
  if constexpr (std::is_same_v<T, double>) return 0x1p-53;
  if constexpr (std::is_same_v<T, float>) return 0x1p-24;
  if constexpr (std::is_same_v<T, krama::f16>) return 0x1p-11;
  return 0x1p-8;
}

/// One product with room between the rows and around it: extents, leading dimensions, scalars.
struct Product {
  Op ta = Op::none;
  Op tb = Op::none;
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  double alpha = 1;
  double beta = 0;
  std::int64_t gap = 0;  ///< elements between rows, in all three matrices

  [[nodiscard]] std::int64_t a_rows() const { return ta == Op::none ? m : k; }
  [[nodiscard]] std::int64_t b_rows() const { return tb == Op::none ? k : n; }
  [[nodiscard]] std::int64_t lda() const { return (ta == Op::none ? k : m) + gap; }
  [[nodiscard]] std::int64_t ldb() const { return (tb == Op::none ? n : k) + gap; }
  [[nodiscard]] std::int64_t ldc() const { return n + gap; }
  [[nodiscard]] std::string text() const {
    return fmt::format("m {} n {} k {} {}{} alpha {} beta {} gap {}", m, n, k,
                       ta == Op::none ? 'N' : 'T', tb == Op::none ? 'N' : 'T', alpha, beta, gap);
  }
};

template <class T, class E>
krama::Tensor<T, 1, typename E::memory_space> on_device(const E& exec, const std::vector<T>& v) {
  krama::Tensor<T, 1, typename E::memory_space> t(exec, "krama::test::gemm",
                                                  {static_cast<std::int64_t>(v.size())});
  krama::upload(exec, t.ref(), std::span<const T>(v));
  return t;
}

/// Runs the product on `exec` and returns all of C, gaps included.
template <class T, class TC>
std::vector<TC> run(const Exec& exec, const Product& p, const std::vector<T>& a,
                    const std::vector<T>& b, const std::vector<TC>& c) {
  const auto da = on_device(exec, a);
  const auto db = on_device(exec, b);
  const auto dc = on_device(exec, c);
  krama::kernels::gemm_strided(exec, p.ta, p.tb, p.m, p.n, p.k, static_cast<accum_t<TC>>(p.alpha),
                               static_cast<const T*>(da.data()), p.lda(),
                               static_cast<const T*>(db.data()), p.ldb(),
                               static_cast<accum_t<TC>>(p.beta), dc.data(), p.ldc());
  return krama::download(exec, dc.ref());
}

/// The largest error over its bound (k roundings of the sum of magnitudes, one of the result); gaps
/// must keep their bits. At most 1 when the product is right.
template <class T, class TC>
double error_of(const Product& p, const std::vector<T>& a, const std::vector<T>& b,
                const std::vector<TC>& before, const std::vector<TC>& after,
                const std::vector<T>* bias = nullptr) {
  double worst = 0;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.ldc(); ++j) {
      const std::size_t here = at(i * p.ldc() + j);
      if (j >= p.n) {
        if (!(wide(after[here]) == wide(before[here]))) return 1e30;
        continue;
      }
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t q = 0; q < p.k; ++q) {
        const double x = wide(a[at(p.ta == Op::none ? i * p.lda() + q : q * p.lda() + i)]);
        const double y = wide(b[at(p.tb == Op::none ? q * p.ldb() + j : j * p.ldb() + q)]);
        sum += x * y;
        magnitude += std::abs(x * y);
      }
      double want = p.alpha * sum;
      magnitude = std::abs(p.alpha) * magnitude;
      if (p.beta != 0) {
        want += p.beta * wide(before[here]);
        magnitude += std::abs(p.beta * wide(before[here]));
      }
      if (bias != nullptr) {
        want += wide((*bias)[at(j)]);
        magnitude += std::abs(wide((*bias)[at(j)]));
      }
      // Half types may be rounded twice (product, then sum), f16 also to a multiple of 2^-24.
      const double stored =
          (sizeof(TC) == 2 ? 2.1 : 1.001) * rounding<TC>() *
          (std::abs(want) + (p.beta != 0 || bias != nullptr ? magnitude * 0.05 : 0.0));
      const double bound = static_cast<double>(p.k + 4) * rounding<accum_t<TC>>() * magnitude +
                           stored + (std::is_same_v<TC, krama::f16> ? 0x1p-24 : 0.0);
      const double error = std::abs(wide(after[here]) - want) / bound;
      if (!(error <= worst)) worst = std::isnan(error) ? 1e30 : error;
    }
  }
  return worst;
}

/// Product `p` through the door in force, checked against the naive one.
template <class T, class TC>
double check(const Exec& exec, const Product& p) {
  const auto a = values<T>(p.a_rows() * p.lda(), 1);
  const auto b = values<T>(p.b_rows() * p.ldb(), 2);
  const auto c = values<TC>(p.m * p.ldc(), 3);
  return error_of(p, a, b, c, run<T, TC>(exec, p, a, b, c));
}

/// The error of linear_forward, as of the product that it is.
template <class T, class E>
double linear_error(const E& exec, std::int64_t rows, std::int64_t out, std::int64_t in,
                    bool with_bias) {
  using M = typename E::memory_space;
  const Product p{Op::none, Op::transpose, rows, out, in, 1.0, 0.0, 0};
  const auto x = values<T>(rows * in, 1);
  const auto w = values<T>(out * in, 2);
  const auto bias = values<T>(out, 3);
  const std::vector<T> before(static_cast<std::size_t>(rows * out), static_cast<T>(NAN));
  const auto dx = on_device(exec, x);
  const auto dw = on_device(exec, w);
  const auto db = on_device(exec, bias);
  const auto y = on_device(exec, before);
  krama::kernels::linear_forward(
      exec, krama::TensorRef<const T, 2, M>(dx.data(), {rows, in}),
      krama::TensorRef<const T, 2, M>(dw.data(), {out, in}),
      krama::TensorRef<const T, 1, M>(with_bias ? db.data() : nullptr, krama::Extents<1>{out}),
      krama::TensorRef<T, 2, M>(y.data(), {rows, out}));
  return error_of(p, x, w, before, krama::download(exec, y.ref()), with_bias ? &bias : nullptr);
}

inline const char* name_of(GemmDoor door) {
  switch (door) {
    case GemmDoor::automatic:
      return "automatic";
    case GemmDoor::portable:
      return "portable";
    case GemmDoor::packed:
      return "packed";
    case GemmDoor::onednn:
      return "onednn";
    case GemmDoor::openblas:
      return "openblas";
  }
  return "?";
}

}  // namespace gemm_test
