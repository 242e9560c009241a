// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// The way through the front door to a device's library, with a naive library on the stand-in device:
// order on the instance, bias with and without an epilogue, what stays with Krama's own kernel.
#include "kernels/gemm_reference.hpp"

#include <krama/kokkos_ext/per_instance.hpp>
#include <krama/kokkos_ext/streams.hpp>
#include <krama/testing/guarded/device.hpp>

#include <stdexcept>

#include "doors/naive_blas.hpp"

using krama::testing::GuardedDevice;

namespace doors_test {
/// How the naive library behaves, and what it was asked to do.
struct Library {
  bool fuses = false;
  bool fails = false;
  int calls = 0;
  int fused = 0;
};
inline Library& library() {
  static Library l;
  return l;
}
}  // namespace doors_test

template <>
struct krama::kernels::detail::DeviceBlas<GuardedDevice> {
  static constexpr bool exists = true;
  template <class A>
  static void run(const GuardedDevice&, const ColumnMajorGemm<A>& p) {
    auto& l = doors_test::library();
    KRAMA_EXPECTS(!l.fails, "naiveGemm failed: no; the product is {}", describe(p));
    ++l.calls;
    doors_test::naive_blas(p);
  }
  template <class A>
  static bool run_with_bias(const GuardedDevice&, const ColumnMajorGemm<A>& p, const void* bias) {
    auto& l = doors_test::library();
    if (!l.fuses) return false;
    ++l.fused;
    doors_test::naive_blas(p, bias);
    return true;
  }
};

using namespace gemm_test;
using krama::bf16;
using krama::Extents;
using krama::f16;
using krama::kernels::ForcedGemmDoor;
using krama::testing::DelayedWork;

namespace {

template <class T>
std::vector<T> products(const GuardedDevice& exec, const Product& p, std::int64_t batch) {
  const auto a = on_device(exec, values<T>(batch * p.a_rows() * p.lda(), 1));
  const auto b = on_device(exec, values<T>(batch * p.b_rows() * p.ldb(), 2));
  const auto c = on_device(exec, values<T>(batch * p.m * p.ldc(), 3));
  krama::kernels::batched_gemm_strided(
      exec, p.ta, p.tb, p.m, p.n, p.k, static_cast<accum_t<T>>(p.alpha),
      static_cast<const T*>(a.data()), p.lda(), p.a_rows() * p.lda(),
      static_cast<const T*>(b.data()), p.ldb(), p.b_rows() * p.ldb(),
      static_cast<accum_t<T>>(p.beta), c.data(), p.ldc(), p.m * p.ldc(), batch);
  return krama::download(exec, c.ref());
}

}  // namespace

TEMPLATE_TEST_CASE("device library: a bias, with an epilogue and without", "[doors]", double, float,
                   bf16, f16) {
  const GuardedDevice exec;
  for (const bool delay : {false, true}) {
    const std::optional<DelayedWork> delayed =
        delay ? std::optional<DelayedWork>(std::in_place) : std::nullopt;
    for (const bool fuses : {false, true}) {
      doors_test::library() = {.fuses = fuses};
      for (const auto& s : {Extents<3>{1, 1, 1}, {7, 10, 33}, {12, 5, 1}}) {
        INFO("delayed " << delay << ", epilogue " << fuses << ", rows " << s[0]);
        CHECK(linear_error<TestType>(exec, s[0], s[1], s[2], true) <= 1.0);
      }
      CHECK(doors_test::library().calls == (fuses ? 0 : 3));
      CHECK(doors_test::library().fused == (fuses ? 3 : 0));
    }
  }
}

TEST_CASE("device library: batches, and what stays with Krama's kernel", "[doors]") {
  const GuardedDevice exec;
  doors_test::library() = {};
  const Product p{Op::transpose, Op::none, 6, 5, 7, 0.5, 1.0, 2};
  const auto by_library = products<float>(exec, p, 4);
  CHECK(doors_test::library().calls == 1);
  {
    const ForcedGemmDoor own(GemmDoor::portable);
    const auto by_kernel = products<float>(exec, p, 4);
    CHECK(doors_test::library().calls == 1);
    double most = 0;
    for (std::size_t i = 0; i < by_kernel.size(); ++i) {
      most = std::max(most, std::abs(wide(by_kernel[i]) - wide(by_library[i])));
    }
    CHECK(most < 1e-5);
  }
  // Words for hosts do not concern devices.
  const ForcedGemmDoor host(GemmDoor::openblas);
  products<float>(exec, p, 1);
  CHECK(doors_test::library().calls == 2);
  // No factors: C is only scaled, and the library is not asked.
  const Product none{Op::none, Op::none, 3, 2, 0, 1.0, 0.5, 0};
  const auto scaled = products<double>(exec, none, 2);
  const auto before = values<double>(12, 3);
  CHECK(doors_test::library().calls == 2);
  for (std::size_t i = 0; i < 12; ++i) CHECK(scaled[i] == 0.5 * before[i]);
}

TEST_CASE("device library: a failure is an error with the call and the sizes", "[doors]") {
  const GuardedDevice exec;
  doors_test::library() = {.fails = true};
  const Product p{Op::none, Op::transpose, 2, 3, 4, 1.0, 0.0, 0};
  CHECK_THROWS_WITH(products<float>(exec, p, 1),
                    Catch::Matchers::ContainsSubstring("naiveGemm failed") &&
                        Catch::Matchers::ContainsSubstring("C (2, 3) = 1 A (2, 4) B (3, 4)^T"));
  doors_test::library() = {};
}

TEST_CASE("device library: one handle for each instance", "[doors]") {
  struct Handle {
    explicit Handle(const GuardedDevice&) {}
  };
  using Handles = krama::kokkos_ext::PerInstance<GuardedDevice, Handle>;
  const GuardedDevice first;
  const GuardedDevice copy = first;
  const GuardedDevice other = krama::kokkos_ext::separate_instance(first);
  CHECK(&Handles::of(first) == &Handles::of(copy));
  CHECK(&Handles::of(other) == &Handles::of(other));
  CHECK(&Handles::of(first) != &Handles::of(other));
}
