// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "kernels/gemm_reference.hpp"

#include <cstring>

using namespace gemm_test;
using krama::bf16;
using krama::Extents;
using krama::f16;
using krama::TensorRef;
using krama::kernels::ForcedGemmDoor;

namespace {

template <class T>
std::vector<accum_t<T>> bias_grad(const Exec& exec, const std::vector<T>& dy, std::int64_t rows,
                                  std::int64_t out) {
  const auto ddy = on_device(exec, dy);
  const auto db = on_device(exec, values<accum_t<T>>(out, 4));
  krama::kernels::bias_grad(exec, TensorRef<const T, 2, Mem>(ddy.data(), {rows, out}), db.ref());
  return krama::download(exec, db.ref());
}

}  // namespace

TEMPLATE_TEST_CASE("linear_forward: every door, with and without bias", "[kernels]", double, float,
                   bf16, f16) {
  const Exec exec;
  for (const GemmDoor door : {GemmDoor::automatic, GemmDoor::portable, GemmDoor::packed,
                              GemmDoor::onednn, GemmDoor::openblas}) {
    const ForcedGemmDoor forced(door);
    for (const auto& s : {Extents<3>{1, 1, 1},
                          {7, 10, 33},
                          {32, 10, 256},
                          {64, 256, 78},
                          {130, 384, 128},
                          {300, 200, 100}}) {
      for (const bool bias : {true, false}) {
        INFO(name_of(door) << ": rows " << s[0] << " out " << s[1] << " in " << s[2] << " bias "
                           << bias);
        CHECK(linear_error<TestType>(exec, s[0], s[1], s[2], bias) <= 1.0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("bias_grad: adds the column sums", "[kernels]", double, float, bf16, f16) {
  const Exec exec;
  for (const auto& s : {Extents<2>{1, 1}, {3, 70}, {64, 10}, {1000, 129}, {2049, 64}, {0, 5}}) {
    INFO("rows " << s[0] << " out " << s[1]);
    const auto dy = values<TestType>(s[0] * s[1], 1);
    const auto before = values<accum_t<TestType>>(s[1], 4);
    const auto after = bias_grad(exec, dy, s[0], s[1]);
    for (std::int64_t j = 0; j < s[1]; ++j) {
      double want = wide(before[static_cast<std::size_t>(j)]);
      double magnitude = std::abs(want);
      for (std::int64_t i = 0; i < s[0]; ++i) {
        const double v = wide(dy[static_cast<std::size_t>(i * s[1] + j)]);
        want += v;
        magnitude += std::abs(v);
      }
      const double bound =
          static_cast<double>(s[0] + 2) * rounding<accum_t<TestType>>() * magnitude;
      CHECK(std::abs(after[static_cast<std::size_t>(j)] - want) <= bound);
    }
  }
}

#if defined(KOKKOS_ENABLE_OPENMP) && !defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ENABLE_HIP)
TEST_CASE("bias_grad: the same bits for 1 and 2 threads, and again", "[kernels]") {
  for (const auto& s : {Extents<2>{1000, 10}, {2048, 384}, {5000, 3}}) {
    const auto dy = values<float>(s[0] * s[1], 1);
    const auto one = bias_grad(Kokkos::OpenMP(1), dy, s[0], s[1]);
    for (int again = 0; again < 5; ++again) {
      const auto all = bias_grad(Kokkos::OpenMP(), dy, s[0], s[1]);
      CHECK(std::memcmp(one.data(), all.data(), one.size() * sizeof(float)) == 0);
    }
  }
}
#endif
