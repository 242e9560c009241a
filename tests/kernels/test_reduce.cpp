// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/kernels/reduce.hpp>

#include <krama/core/random.hpp>
#include <krama/tensor/copy.hpp>

#include "support/test_space.hpp"

#include <bit>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace krama;
using Catch::Approx;

namespace {

template <class T>
Tensor<T, 1, mem_of<TestDevice>> numbers(std::int64_t n, double scale = 1.0) {
  const exec_of<TestDevice> exec;
  Tensor<T, 1, mem_of<TestDevice>> x(exec, "x", {n});
  std::vector<T> host;
  for (std::int64_t i = 0; i < n; ++i) {
    host.push_back(static_cast<T>(static_cast<accum_t<T>>(
        scale * (uniform({8, 1, 0}, static_cast<std::uint64_t>(i)) - 0.25F))));
  }
  upload(exec, x.ref(), std::span<const T>(host));
  return x;
}

/// The order that the kernel promises, written down plainly: pieces of whole blocks, 16 lanes.
double by_definition(const std::vector<float>& x, bool squares) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::int64_t blocks = (n + 4095) / 4096;
  const std::int64_t piece = (blocks + 511) / 512 * 4096;
  double total = 0.0;
  for (std::int64_t begin = 0; begin < n; begin += piece) {
    double lane[16] = {};
    for (std::int64_t i = begin; i < std::min(n, begin + piece); ++i) {
      const auto v = static_cast<double>(x[static_cast<std::size_t>(i)]);
      lane[(i - begin) % 16] += squares ? v * v : v;
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    }
    total += lane[0];
  }
  return total;
}

}  // namespace

TEST_CASE("reduce: the order is the promised one, whatever the threads (N17)", "[kernels]") {
  const exec_of<TestDevice> exec;
  for (const std::int64_t n : {1, 15, 16, 17, 4095, 4096, 4097, 100000, 1000000, 3000001}) {
    const auto x = numbers<float>(n);
    const auto host = download(exec, x.cref());
    const double sum = kernels::sum(exec, x.cref());
    const double squares = kernels::squared_norm(exec, x.cref());
    CHECK(std::bit_cast<std::uint64_t>(sum) ==
          std::bit_cast<std::uint64_t>(by_definition(host, false)));
    CHECK(std::bit_cast<std::uint64_t>(squares) ==
          std::bit_cast<std::uint64_t>(by_definition(host, true)));
  }
}

TEST_CASE("reduce: the device's order is the host's (N17)", "[kernels]") {
  // What runs on devices, run here: lanes as separate items, then the join.
  namespace kd = kernels::detail;
  const exec_of<TestDevice> exec;
  const std::int64_t n = 70001;
  const auto x = numbers<float>(n);
  const std::int64_t piece = kd::piece_of(n), pieces = (n + piece - 1) / piece;
  Tensor<double, 1, mem_of<TestDevice>> s(exec, "s", {pieces * kernels::row_lanes + 1});
  double* lanes = s.data();
  double* total = lanes + pieces * kernels::row_lanes;
  kokkos_ext::launch(exec, "krama::test", pieces * kernels::row_lanes,
                     kd::LaneSum<float, kd::Square>{x.data(), lanes, n, piece, {}});
  kokkos_ext::launch(exec, "krama::test", 1, kd::JoinLanes{lanes, total, pieces});
  CHECK(download(exec, s.cref()).back() == kernels::squared_norm(exec, x.cref()));
}

TEST_CASE("reduce: twenty runs give the same bits (N17)", "[kernels]") {
  const exec_of<TestDevice> exec;
  const auto x = numbers<float>(1000000);
  const double first = kernels::sum(exec, x.cref());
  for (int run = 0; run < 20; ++run) CHECK(kernels::sum(exec, x.cref()) == first);
}

TEMPLATE_TEST_CASE("reduce: all element types", "[kernels]", double, float, bf16, f16) {
  const exec_of<TestDevice> exec;
  const auto x = numbers<TestType>(5000);
  double sum = 0, squares = 0;
  for (const auto v : download(exec, x.cref())) {
    const auto d = static_cast<double>(static_cast<accum_t<TestType>>(v));
    sum += d;
    squares += d * d;
  }
  CHECK(kernels::sum(exec, x.cref()) == Approx(sum).epsilon(1e-12));
  CHECK(kernels::squared_norm(exec, x.cref()) == Approx(squares).epsilon(1e-12));
  CHECK(kernels::count_non_finite(exec, x.cref()) == 0);
}

TEST_CASE("reduce: nothing sums to nothing", "[kernels]") {
  const exec_of<TestDevice> exec;
  const TensorRef<const float, 1, mem_of<TestDevice>> none(nullptr, {0});
  CHECK(kernels::sum(exec, none) == 0.0);
  CHECK(kernels::squared_norm(exec, none) == 0.0);
  CHECK(kernels::count_non_finite(exec, none) == 0);
}

TEST_CASE("reduce: what is not finite is seen wherever it stands (M01)", "[kernels]") {
  const exec_of<TestDevice> exec;
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::size_t at : {0U, 17U, 4095U, 4096U, 9999U}) {
    for (const float bad : {inf, -inf, std::nanf("")}) {
      const auto x = numbers<float>(10000);
      auto host = download(exec, x.cref());
      host[at] = bad;
      upload(exec, x.ref(), std::span<const float>(host));
      CHECK(kernels::count_non_finite(exec, x.cref()) == 1);
      CHECK_FALSE(std::isfinite(kernels::squared_norm(exec, x.cref())));
    }
  }
}

TEST_CASE("reduce: large gradients do not look infinite", "[kernels]") {
  const exec_of<TestDevice> exec;
  const auto x = numbers<float>(1000, 1e38);
  CHECK(std::isfinite(kernels::squared_norm(exec, x.cref())));
}

TEST_CASE("row_reduce: sum and maximum of short and long rows", "[kernels]") {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 100}) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(i);
    CHECK(kernels::row_sum<double>(n, [](std::int64_t i) { return static_cast<double>(i); }) ==
          sum);
    const double largest = kernels::row_max<double>(
        n, -1.0, [](std::int64_t i) { return static_cast<double>(i * 7 % 101); });
    double want = -1.0;
    for (std::int64_t i = 0; i < n; ++i) want = std::max(want, static_cast<double>(i * 7 % 101));
    CHECK(largest == want);
  }
}
