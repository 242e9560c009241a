// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/tensor/copy.hpp>
#include <krama/tensor/wrap.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <vector>

using namespace krama;
using Catch::Matchers::ContainsSubstring;

// Host views: the test reads and writes their elements directly.
using Host = Kokkos::HostSpace;
using HostExec = Kokkos::DefaultHostExecutionSpace;

TEST_CASE("wrap: a packed View is a tensor without a copy", "[tensor]") {
  const Kokkos::View<double**, Kokkos::LayoutRight, Host> v("v", 3, 4);
  const auto t = wrap(v);
  CHECK(t.data() == v.data());
  CHECK(t.extents() == Extents<2>{3, 4});
  t(1, 2) = 5.0;
  CHECK(v(1, 2) == 5.0);
  const Kokkos::View<const double**, Kokkos::LayoutRight, Host> reading = v;
  STATIC_CHECK(std::is_same_v<decltype(wrap(reading)), TensorRef<const double, 2, Host>>);
  CHECK(wrap(reading)(1, 2) == 5.0);
}

TEST_CASE("wrap: any layout of rank 1, rows of a matrix", "[tensor]") {
  const Kokkos::View<float*, Kokkos::LayoutLeft, Host> left("left", 5);
  CHECK(wrap(left).extents() == Extents<1>{5});
  const Kokkos::View<double**, Kokkos::LayoutRight, Host> v("v", 3, 4);
  const auto row = Kokkos::subview(v, 1, Kokkos::ALL);
  wrap(row)(3) = 7.0;
  CHECK(v(1, 3) == 7.0);
}

TEST_CASE("wrap: a View with gaps is refused and the message says what to do", "[tensor]") {
  const Kokkos::View<double**, Kokkos::LayoutRight, Host> v("weights", 3, 4);
  const auto column = Kokkos::subview(v, Kokkos::ALL, 1);
  CHECK_THROWS_WITH(wrap(column), ContainsSubstring("(3) is not packed; use import_copy"));
  const Kokkos::View<double**, Kokkos::LayoutRight, Host> padded(
      Kokkos::view_alloc("padded", Kokkos::AllowPadding), 100, 1001);
  if (padded.span_is_contiguous()) SKIP("this Kokkos does not pad");
  CHECK_THROWS_WITH(wrap(padded), ContainsSubstring("\"padded\" (100, 1001) is not packed"));
  padded(99, 1000) = 3.0;
  const auto packed = import_copy(HostExec{}, padded);
  CHECK(packed.extents() == Extents<2>{100, 1001});
  CHECK(packed.ref()(99, 1000) == 3.0);
}

TEST_CASE("wrap_transposed: a column-major matrix is a row-major one turned over", "[tensor]") {
  const Kokkos::View<float**, Kokkos::LayoutLeft, Host> v("v", 3, 4);
  v(2, 1) = 6.0F;
  const auto t = wrap_transposed(v);
  CHECK(t.data() == v.data());
  CHECK(t.extents() == Extents<2>{4, 3});
  CHECK(t(1, 2) == 6.0F);
  const Kokkos::View<float**, Kokkos::LayoutLeft, Host> padded(
      Kokkos::view_alloc("padded", Kokkos::AllowPadding), 1001, 100);
  if (!padded.span_is_contiguous()) {
    CHECK_THROWS_WITH(wrap_transposed(padded), ContainsSubstring("is not packed"));
  }
}

TEST_CASE("import_copy: any View becomes a packed tensor of its own", "[tensor]") {
  const HostExec exec;
  const Kokkos::View<double***, Kokkos::LayoutLeft, Host> left("left", 2, 3, 4);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 4; ++k) left(i, j, k) = static_cast<double>(100 * i + 10 * j + k);
    }
  }
  const auto t = import_copy(exec, left);
  kokkos_ext::fence(exec, "test");
  std::size_t wrong = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k) {
        if (t.ref()(i, j, k) != static_cast<double>(100 * i + 10 * j + k)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  left(0, 0, 0) = -1.0;
  CHECK(t.ref()(0, 0, 0) == 0.0);

  const Kokkos::View<double**, Kokkos::LayoutRight, Host> v("v", 3, 4);
  v(2, 1) = 9.0;
  const auto column = import_copy(exec, Kokkos::subview(v, Kokkos::ALL, 1));
  kokkos_ext::fence(exec, "test");
  CHECK(column.extents() == Extents<1>{3});
  CHECK(column.ref()(2) == 9.0);
}
