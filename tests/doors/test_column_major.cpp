// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "kernels/gemm_reference.hpp"

#include <krama/kernels/detail/column_major.hpp>

#include <stdexcept>

#include "doors/naive_blas.hpp"

using namespace gemm_test;
using krama::bf16;
using krama::DType;
using krama::Extents;
using krama::f16;
using krama::kernels::detail::BatchStrides;
using krama::kernels::detail::BlasCompute;
using krama::kernels::detail::column_major;
using krama::kernels::detail::GemmArgs;

namespace {

template <class T, class TC>
GemmArgs<T, T, TC> args_of(const Product& p, const T* a, const T* b, TC* c) {
  return {p.ta,
          p.tb,
          p.m,
          p.n,
          p.k,
          static_cast<accum_t<TC>>(p.alpha),
          a,
          p.lda(),
          b,
          p.ldb(),
          static_cast<accum_t<TC>>(p.beta),
          c,
          p.ldc(),
          nullptr};
}

/// A batch of products through the call's arguments, each against its definition by rows. Elements
/// between the rows and between the products must keep their bits.
template <class T, class TC>
double mapped_error(const Product& p, std::int64_t batch, std::int64_t apart) {
  const std::int64_t sa = p.a_rows() * p.lda() + apart;
  const std::int64_t sb = p.b_rows() * p.ldb() + 2 * apart;
  const std::int64_t sc = p.m * p.ldc() + 3 * apart;
  const auto a = values<T>(batch * sa, 1);
  const auto b = values<T>(batch * sb, 2);
  const auto before = values<TC>(batch * sc, 3);
  auto after = before;
  const auto call = column_major(args_of(p, a.data(), b.data(), after.data()),
                                 BatchStrides{sa, sb, sc}, batch, false);
  if (!call) return 1e30;
  doors_test::naive_blas(*call);
  double worst = 0;
  const auto part = [](const auto& v, std::int64_t i, std::int64_t stride) {
    return std::vector(v.begin() + i * stride, v.begin() + (i + 1) * stride);
  };
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto c0 = part(before, i, sc);
    const auto c1 = part(after, i, sc);
    worst = std::max(worst, error_of(p, part(a, i, sa), part(b, i, sb), c0, c1));
    for (auto j = static_cast<std::size_t>(p.m * p.ldc()); j < c0.size(); ++j) {
      if (wide(c0[j]) != wide(c1[j])) return 1e30;
    }
  }
  return worst;
}

template <class T, class TC>
void all_calls() {
  for (const auto& s :
       {Extents<3>{1, 1, 1}, {1, 7, 5}, {6, 1, 3}, {4, 3, 1}, {5, 3, 4}, {9, 12, 7}}) {
    for (const Op ta : {Op::none, Op::transpose}) {
      for (const Op tb : {Op::none, Op::transpose}) {
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {-0.5, 0.25}}) {
          for (const std::int64_t gap : {0, 3}) {
            const Product p{ta, tb, s[0], s[1], s[2], alpha, beta, gap};
            INFO(p.text());
            CHECK(mapped_error<T, TC>(p, 1, 0) <= 1.0);
            CHECK(mapped_error<T, TC>(p, 3, 5) <= 1.0);
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("column major: every call, f64", "[doors]") { all_calls<double, double>(); }
TEST_CASE("column major: every call, f32", "[doors]") { all_calls<float, float>(); }
TEST_CASE("column major: every call, bf16", "[doors]") { all_calls<bf16, bf16>(); }
TEST_CASE("column major: every call, bf16 into f32", "[doors]") { all_calls<bf16, float>(); }
TEST_CASE("column major: every call, f16", "[doors]") { all_calls<f16, f16>(); }
TEST_CASE("column major: every call, f16 into f32", "[doors]") { all_calls<f16, float>(); }

TEST_CASE("column major: types and arithmetic", "[doors]") {
  const Product p{Op::none, Op::none, 2, 3, 4, 1.0, 0.0, 0};
  const auto call = [&]<class T, class TC>(T, TC, bool tf32) {
    return column_major(args_of<T, TC>(p, nullptr, nullptr, nullptr), {}, 1, tf32).value();
  };
  CHECK(call(double{}, double{}, true).in == DType::f64);
  CHECK(call(double{}, double{}, true).compute == BlasCompute::f64);
  CHECK(call(float{}, float{}, false).compute == BlasCompute::f32);
  CHECK(call(float{}, float{}, true).compute == BlasCompute::tf32);
  CHECK(call(bf16{}, bf16{}, true).compute == BlasCompute::f32);
  CHECK(call(bf16{}, bf16{}, true).out == DType::bf16);
  CHECK(call(f16{}, float{}, false).in == DType::f16);
  CHECK(call(f16{}, float{}, false).out == DType::f32);
  static_assert(std::is_same_v<decltype(call(f16{}, f16{}, false).alpha), float>);
  static_assert(std::is_same_v<decltype(call(double{}, double{}, false).alpha), double>);
}

TEST_CASE("column major: what a library does not take", "[doors]") {
  const auto takes = [](const Product& p, std::int64_t lda, std::int64_t ldb, std::int64_t ldc,
                        std::int64_t batch = 1) {
    auto g = args_of<float, float>(p, nullptr, nullptr, nullptr);
    g.lda = lda;
    g.ldb = ldb;
    g.ldc = ldc;
    return column_major(g, {}, batch, false);
  };
  const Product p{Op::none, Op::none, 4, 5, 6, 1.0, 0.0, 0};
  REQUIRE(takes(p, 6, 5, 5));
  CHECK_FALSE(takes(p, 5, 5, 5));  // rows of A overlap, as windows of a signal do
  CHECK_FALSE(takes(p, 6, 4, 5));
  CHECK_FALSE(takes(p, 6, 5, 4));
  CHECK_FALSE(takes(p, std::int64_t{1} << 31, 5, 5));
  CHECK_FALSE(takes(p, 6, 5, 5, std::int64_t{1} << 31));
  CHECK_FALSE(takes({Op::none, Op::none, 4, 5, 0, 1.0, 0.0, 0}, 6, 5, 5));
  CHECK_FALSE(takes({Op::none, Op::none, std::int64_t{1} << 31, 5, 6, 1.0, 0.0, 0}, 6, 5, 5));
  // One row: there is no next one, so any number is right, and the library gets one that it takes.
  const auto row = takes({Op::none, Op::none, 1, 5, 6, 1.0, 0.0, 0}, 0, 5, 0);
  REQUIRE(row);
  CHECK(row->ld_second == 6);
  CHECK(row->ld_result == 5);
}

TEST_CASE("column major: an error names the product in the caller's words", "[doors]") {
  auto p = args_of<bf16, float>({Op::none, Op::transpose, 2, 3, 4, 1.0, 0.0, 1}, nullptr, nullptr,
                                nullptr);
  const auto call = column_major(p, {20, 30, 40}, 7, false);
  REQUIRE(call);
  CHECK(describe(*call) ==
        "C (2, 3) = 1 A (2, 4) B (3, 4)^T + 0 C, bf16 into f32, leading dimensions 5, 5, 4, 7 "
        "products with strides 20, 30, 40");
}

TEST_CASE("TF32 is off unless asked for", "[doors]") {
  using namespace krama::kernels;
  CHECK_FALSE(tf32_allowed());
  allow_tf32(true);
  CHECK(tf32_allowed());
  allow_tf32(false);
  CHECK_FALSE(detail::tf32_named(""));
  CHECK_FALSE(detail::tf32_named("0"));
  CHECK(detail::tf32_named("1"));
  CHECK_THROWS_WITH(detail::tf32_named("yes"), Catch::Matchers::ContainsSubstring("\"yes\""));
}
