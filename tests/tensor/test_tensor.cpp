// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/tensor/any_ref.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/tensor/tensor.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <numeric>
#include <vector>

using namespace krama;
using Catch::Matchers::ContainsSubstring;

namespace {
using M = mem_of<TestDevice>;
using E = exec_of<TestDevice>;

std::vector<float> counting(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0.0F);
  return v;
}
}  // namespace

TEST_CASE("tensor: extents, label, shared memory of copies", "[tensor]") {
  const E exec;
  const Tensor<float, 3, M> t(exec, "t", {2, 3, 4});
  CHECK(t.size() == 24);
  CHECK(t.extent(1) == 3);
  CHECK(t.label() == "t");
  const auto u = t;  // NOLINT: sharing is what is tested
  CHECK(u.data() == t.data());
  CHECK(Tensor<float, 1, M>{}.size() == 0);
  CHECK(Tensor<float, 2, M>(exec, "empty", {0, 5}).size() == 0);
}

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("tensor: memory that cannot be had is an error with label, bytes and space (O02)",
          "[tensor]") {
  const std::int64_t n = std::int64_t{1} << 50;
  try {
    const Tensor<float, 1, M> t("moments of everything", {n});
    FAIL("four pebibytes were granted");
  } catch (const OutOfMemory& e) {
    CHECK(e.bytes() == 4 * n);
    CHECK_THAT(e.what(),
               ContainsSubstring("\"moments of everything\" wants 4503599627370496 bytes"));
    CHECK_THAT(e.what(), ContainsSubstring(M::name()));
  }
}
#endif

TEST_CASE("tensor: extents that overflow are refused before memory is asked for", "[tensor]") {
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK_THROWS_WITH((Tensor<float, 2, M>("t", {large, large})), ContainsSubstring("overflow"));
  CHECK_THROWS_WITH((Tensor<float, 1, M>("t", {-1})), ContainsSubstring("negative"));
}

TEST_CASE("tensor_ref: row-major, reshaped, flat", "[tensor]") {
  auto host = counting(24);
  const TensorRef<float, 3, Kokkos::HostSpace> r(host.data(), {2, 3, 4});
  CHECK(r(1, 2, 3) == 23.0F);
  CHECK(r(0, 1, 0) == 4.0F);
  CHECK(r.flat()(17) == 17.0F);
  CHECK(r.reshaped<2>({6, 4})(5, 1) == 21.0F);
  CHECK_THROWS_WITH(r.reshaped<2>({5, 5}), ContainsSubstring("24 elements do not fill (5, 5)"));
  const TensorRef<const float, 3, Kokkos::HostSpace> reading = r;
  CHECK(reading.data() == r.data());
  CHECK_FALSE(r.null());
  CHECK(TensorRef<float, 3, Kokkos::HostSpace>(nullptr, {2, 3, 4}).null());
}

TEST_CASE("copy, upload, download: values and refusals", "[tensor]") {
  const E exec;
  const auto values = counting(12);
  const Tensor<float, 2, M> a(exec, "a", {3, 4}), b(exec, "b", {3, 4}), c(exec, "c", {4, 3});
  upload(exec, a.ref(), std::span<const float>(values));
  copy(exec, b.ref(), a.cref());
  CHECK(download(exec, b.cref()) == values);
  CHECK_THROWS_WITH(copy(exec, c.ref(), a.cref()),
                    ContainsSubstring("extents differ: to (4, 3), from (3, 4)"));
  CHECK_THROWS_WITH(upload(exec, a.ref(), std::span<const float>(values).first(5)),
                    ContainsSubstring("5 values for a tensor of (3, 4)"));
  const Tensor<float, 1, M> none(exec, "none", {0});
  CHECK_NOTHROW(copy(exec, none.ref(), none.cref()));
}

TEST_CASE("fill and cast: every element, through float", "[tensor]") {
  const E exec;
  const Tensor<float, 1, M> x(exec, "x", {1000});
  const Tensor<bf16, 1, M> h(exec, "h", {1000});
  const Tensor<double, 1, M> d(exec, "d", {1000});
  fill(exec, x.ref(), 1.0F / 3.0F);
  cast(exec, h.ref(), x.cref());
  cast(exec, d.ref(), h.cref());
  std::size_t wrong = 0;
  for (const double v : download(exec, d.cref())) {
    if (v != static_cast<double>(static_cast<float>(bf16(1.0F / 3.0F)))) ++wrong;
  }
  CHECK(wrong == 0);
  const Tensor<double, 1, M> other(exec, "other", {999});
  CHECK_THROWS_WITH(cast(exec, other.ref(), x.cref()), ContainsSubstring("to (999), from (1000)"));
}

TEST_CASE("any_ref: hands out its own type at the wanted rank only", "[tensor]") {
  auto host = counting(24);
  const AnyRef<Kokkos::HostSpace> any{host.data(), DType::f32, Shape{2, 3, 4}};
  CHECK(any.bytes() == 96);
  const auto matrix = any.as<float, 2>();
  CHECK(matrix.extents() == Extents<2>{6, 4});
  CHECK(matrix(5, 3) == 23.0F);
  CHECK_THROWS_WITH((any.as<double, 2>()),
                    ContainsSubstring("a value of type f32 (2, 3, 4) is read as f64"));
  CHECK(any_ref(matrix).shape == Shape{6, 4});
}
