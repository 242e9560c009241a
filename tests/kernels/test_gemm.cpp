// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "kernels/gemm_reference.hpp"
#include "support/same_bits.hpp"

#include <thread>

using namespace gemm_test;
using krama::bf16;
using krama::Extents;
using krama::f16;
using krama::Tensor;
using krama::TensorRef;
using krama::kernels::ForcedGemmDoor;
using krama::test::same_bits;

namespace {

constexpr GemmDoor doors[] = {GemmDoor::automatic, GemmDoor::portable, GemmDoor::packed,
                              GemmDoor::onednn, GemmDoor::openblas};

/// Extents around every tile size, and ones far from square.
const std::vector<Extents<3>> shapes = {{1, 1, 1},     {1, 7, 5},      {5, 1, 3},    {3, 2, 1},
                                        {8, 16, 8},    {13, 31, 17},   {33, 47, 61}, {64, 64, 64},
                                        {65, 129, 66}, {10, 256, 130}, {200, 10, 3}, {2, 300, 257},
                                        {257, 3, 40}};

template <class T, class TC>
void all_doors() {
  const Exec exec;
  for (const GemmDoor door : doors) {
    const ForcedGemmDoor forced(door);
    for (const auto& s : shapes) {
      for (const Op ta : {Op::none, Op::transpose}) {
        for (const Op tb : {Op::none, Op::transpose}) {
          for (const double beta : {0.0, 1.0}) {
            const Product p{ta, tb, s[0], s[1], s[2], 1.0, beta, 0};
            INFO(name_of(door) << ": " << p.text());
            CHECK(check<T, TC>(exec, p) <= 1.0);
          }
          const Product p{ta, tb, s[0], s[1], s[2], -0.5, 0.25, 3};
          INFO(name_of(door) << ": " << p.text());
          CHECK(check<T, TC>(exec, p) <= 1.0);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("gemm: every door, f64", "[kernels]") { all_doors<double, double>(); }
TEST_CASE("gemm: every door, f32", "[kernels]") { all_doors<float, float>(); }
TEST_CASE("gemm: every door, bf16", "[kernels]") { all_doors<bf16, bf16>(); }
TEST_CASE("gemm: every door, bf16 into f32", "[kernels]") { all_doors<bf16, float>(); }
TEST_CASE("gemm: every door, f16", "[kernels]") { all_doors<f16, f16>(); }
TEST_CASE("gemm: every door, f16 into f32", "[kernels]") { all_doors<f16, float>(); }

TEST_CASE("gemm: large enough for blocks in all directions", "[kernels]") {
  const Exec exec;
  for (const GemmDoor door : doors) {
    const ForcedGemmDoor forced(door);
    for (const Op ta : {Op::none, Op::transpose}) {
      for (const Op tb : {Op::none, Op::transpose}) {
        const Product p{ta, tb, 301, 278, 811, 1.0, 1.0, 1};
        INFO(name_of(door) << ": " << p.text());
        CHECK(check<float, float>(exec, p) <= 1.0);
      }
    }
  }
}

TEST_CASE("gemm: beta 0 does not read C, k 0 scales it", "[kernels]") {
  const Exec exec;
  const float nan = std::nanf("");
  for (const GemmDoor door : doors) {
    const ForcedGemmDoor forced(door);
    INFO(name_of(door));
    for (const std::int64_t size : {3, 40, 300}) {
      const Product p{Op::none, Op::transpose, size, size, 24, 1.0, 0.0, 0};
      const auto a = values<float>(size * 24, 1);
      const auto b = values<float>(size * 24, 2);
      const std::vector<float> c(static_cast<std::size_t>(size * size), nan);
      CHECK(error_of(p, a, b, c, run<float, float>(exec, p, a, b, c)) <= 1.0);
    }
    const Product none{Op::none, Op::none, 2, 3, 0, 1.0, 0.5, 0};
    const std::vector<float> six = {2, 4, 6, 8, 10, 12};
    CHECK(run<float, float>(exec, none, {}, {}, six) == std::vector<float>{1, 2, 3, 4, 5, 6});
    const Product zero{Op::none, Op::none, 2, 3, 0, 1.0, 0.0, 0};
    CHECK(run<float, float>(exec, zero, {}, {}, std::vector<float>(6, nan)) ==
          std::vector<float>(6, 0.0F));
    const Product empty{Op::none, Op::none, 0, 3, 4, 1.0, 0.0, 0};
    CHECK(run<float, float>(exec, empty, {}, values<float>(12, 1), {}).empty());
  }
}

TEST_CASE("gemm: a NaN and an infinity of A reach C", "[kernels]") {
  const Exec exec;
  for (const GemmDoor door : doors) {
    const ForcedGemmDoor forced(door);
    INFO(name_of(door));
    const Product p{Op::none, Op::none, 17, 19, 23, 1.0, 0.0, 0};
    auto a = values<float>(17 * 23, 1);
    a[5] = std::nanf("");
    a[16 * 23] = HUGE_VALF;
    const auto c =
        run<float, float>(exec, p, a, values<float>(23 * 19, 2), std::vector<float>(17 * 19, 0.0F));
    for (std::size_t j = 0; j < 19; ++j) {
      CHECK(std::isnan(c[j]));
      CHECK(std::isfinite(c[19 + j]));
      CHECK(std::isinf(c[16 * 19 + j]));
    }
  }
}

TEST_CASE("gemm: a second run gives the same bits", "[kernels]") {
  const Exec exec;
  for (const GemmDoor door : doors) {
    const ForcedGemmDoor forced(door);
    for (const auto& s : {Extents<3>{30, 20, 10}, {64, 256, 96}, {512, 128, 384}}) {
      const Product p{Op::transpose, Op::none, s[0], s[1], s[2], 1.0, 1.0, 0};
      INFO(name_of(door) << ": " << p.text());
      const auto a = values<float>(p.a_rows() * p.lda(), 1);
      const auto b = values<float>(p.b_rows() * p.ldb(), 2);
      const auto c = values<float>(p.m * p.ldc(), 3);
      const auto first = run<float, float>(exec, p, a, b, c);
      for (int again = 0; again < 5; ++again) {
        CHECK(same_bits(first, run<float, float>(exec, p, a, b, c)));
      }
    }
  }
}

TEST_CASE("gemm: batches", "[kernels]") {
  const Exec exec;
  struct Case {
    std::int64_t m, n, k, batch;
  };
  for (const GemmDoor door : doors) {
    const ForcedGemmDoor forced(door);
    for (const Case& s : {Case{5, 7, 3, 4}, {64, 64, 16, 6}, {128, 128, 32, 3}, {4, 4, 4, 0}}) {
      for (const Op tb : {Op::none, Op::transpose}) {
        INFO(name_of(door) << ": " << s.m << " " << s.n << " " << s.k << " x " << s.batch);
        const Product p{Op::none, tb, s.m, s.n, s.k, 0.5, 1.0, 2};
        const std::int64_t sa = p.a_rows() * p.lda() + 5;
        const std::int64_t sb = p.b_rows() * p.ldb() + 1;
        const std::int64_t sc = p.m * p.ldc() + 3;
        const auto a = values<float>(sa * s.batch, 1);
        const auto b = values<float>(sb * s.batch, 2);
        const auto c = values<float>(sc * s.batch, 3);
        const auto da = on_device(exec, a);
        const auto db = on_device(exec, b);
        const auto dc = on_device(exec, c);
        krama::kernels::batched_gemm_strided(exec, p.ta, p.tb, p.m, p.n, p.k, 0.5F,
                                             static_cast<const float*>(da.data()), p.lda(), sa,
                                             static_cast<const float*>(db.data()), p.ldb(), sb,
                                             1.0F, dc.data(), p.ldc(), sc, s.batch);
        const auto after = krama::download(exec, dc.ref());
        const auto part = [](const std::vector<float>& v, std::int64_t from, std::int64_t size) {
          return std::vector<float>(v.begin() + from, v.begin() + from + size);
        };
        for (std::int64_t i = 0; i < s.batch; ++i) {
          CHECK(error_of(p, part(a, i * sa, sa), part(b, i * sb, sb), part(c, i * sc, sc),
                         part(after, i * sc, sc)) <= 1.0);
        }
      }
    }
  }
}

TEST_CASE("gemm: extents that do not fit are named", "[kernels]") {
  const Exec exec;
  const Tensor<float, 2, Mem> a("a", {3, 4});
  const Tensor<float, 2, Mem> b("b", {5, 6});
  const Tensor<float, 2, Mem> c("c", {3, 6});
  CHECK_THROWS_WITH(
      krama::kernels::gemm(exec, Op::none, Op::none, 1.0F, a.cref(), b.cref(), 0.0F, c.ref()),
      Catch::Matchers::ContainsSubstring("(3, 6)") &&
          Catch::Matchers::ContainsSubstring("(3, 4)") &&
          Catch::Matchers::ContainsSubstring("(5, 6)"));
  const Tensor<float, 1, Mem> bias("bias", {7});
  CHECK_THROWS_WITH(krama::kernels::linear_forward(exec, a.cref(), b.cref(), bias.cref(), c.ref()),
                    Catch::Matchers::ContainsSubstring("linear_forward"));
  CHECK_THROWS_WITH(krama::kernels::bias_grad(exec, a.cref(), bias.ref()),
                    Catch::Matchers::ContainsSubstring("bias_grad"));
}

TEST_CASE("gemm: KRAMA_GEMM names a door or is refused", "[kernels]") {
  using krama::kernels::detail::gemm_door_named;
  CHECK(gemm_door_named("") == GemmDoor::automatic);
  CHECK(gemm_door_named("portable") == GemmDoor::portable);
  CHECK(gemm_door_named("packed") == GemmDoor::packed);
  CHECK(gemm_door_named("onednn") == GemmDoor::onednn);
  CHECK(gemm_door_named("openblas") == GemmDoor::openblas);
  CHECK_THROWS_WITH(gemm_door_named("mkl"), Catch::Matchers::ContainsSubstring("KRAMA_GEMM") &&
                                                Catch::Matchers::ContainsSubstring("mkl") &&
                                                Catch::Matchers::ContainsSubstring("portable"));
}

TEST_CASE("gemm: host threads call at the same time", "[kernels]") {
  if constexpr (krama::kokkos_ext::is_host_space<Exec>) {
    for (const GemmDoor door : {GemmDoor::packed, GemmDoor::onednn, GemmDoor::openblas}) {
      const ForcedGemmDoor forced(door);
      INFO(name_of(door));
      double worst[3] = {};
      const auto work = [&worst](int me) {
        const Exec exec;
        for (std::int64_t size = 3; size < 60; size += 4) {
          const Product p{Op::none, Op::transpose, size + me, size, 2 * size, 1.0, 0.0, 0};
          const auto a = values<float>(p.m * p.lda(), 1);
          const auto b = values<float>(p.n * p.ldb(), 2);
          std::vector<float> c(static_cast<std::size_t>(p.m * p.n), 0.0F);
          const auto before = c;
          krama::kernels::gemm_strided(exec, p.ta, p.tb, p.m, p.n, p.k, 1.0F, a.data(), p.lda(),
                                       b.data(), p.ldb(), 0.0F, c.data(), p.ldc());
          worst[me] = std::max(worst[me], error_of(p, a, b, before, c));
        }
      };
      std::thread one(work, 0);
      std::thread two(work, 1);
      one.join();
      two.join();
      work(2);
      for (const double w : worst) CHECK(w <= 1.0);
    }
  }
}

#if defined(KOKKOS_ENABLE_OPENMP) && !defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ENABLE_HIP)
TEST_CASE("gemm: inside a parallel region it runs on the calling thread", "[kernels]") {
  const Kokkos::OpenMP exec;
  for (const GemmDoor door :
       {GemmDoor::automatic, GemmDoor::packed, GemmDoor::onednn, GemmDoor::openblas}) {
    const ForcedGemmDoor forced(door);
    INFO(name_of(door));
    const Product p{Op::none, Op::none, 70, 50, 90, 1.0, 0.0, 0};
    const auto a = values<float>(p.m * p.lda(), 1);
    const auto b = values<float>(p.k * p.ldb(), 2);
    double worst[2] = {};
#pragma omp parallel num_threads(2)
    {
      const int me = omp_get_thread_num();
      std::vector<float> c(static_cast<std::size_t>(p.m * p.n), 0.0F);
      const auto before = c;
      krama::kernels::gemm_strided(exec, p.ta, p.tb, p.m, p.n, p.k, 1.0F, a.data(), p.lda(),
                                   b.data(), p.ldb(), 0.0F, c.data(), p.ldc());
      worst[me] = error_of(p, a, b, before, c);
    }
    CHECK(worst[0] <= 1.0);
    CHECK(worst[1] <= 1.0);
  }
}

TEST_CASE("gemm: bits of Krama's own kernels do not depend on the threads", "[kernels]") {
  for (const GemmDoor door : {GemmDoor::portable, GemmDoor::packed}) {
    const ForcedGemmDoor forced(door);
    for (const auto& s : {Extents<3>{33, 47, 61}, {128, 384, 700}, {384, 128, 2048}}) {
      const Product p{Op::transpose, Op::none, s[0], s[1], s[2], 1.0, 1.0, 0};
      INFO(name_of(door) << ": " << p.text());
      const auto a = values<float>(p.a_rows() * p.lda(), 1);
      const auto b = values<float>(p.b_rows() * p.ldb(), 2);
      const auto c = values<float>(p.m * p.ldc(), 3);
      const Kokkos::OpenMP one(1);
      const Kokkos::OpenMP all;
      CHECK(same_bits(run<float, float>(one, p, a, b, c), run<float, float>(all, p, a, b, c)));
    }
  }
}
#endif
