// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/core/error.hpp>
#include <krama/core/extents.hpp>

#include <catch2/catch_all.hpp>
#include <cstdint>
#include <string_view>

using namespace krama;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("extents: products are checked for overflow", "[core]") {
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK(checked_product(large, 1 << 20) == std::int64_t{1} << 60);
  CHECK(checked_product(large, 0) == 0);
  CHECK_THROWS_WITH(checked_product(large, large), ContainsSubstring("overflow 64 bits"));
  CHECK_THROWS_WITH(checked_product(-1, 2), ContainsSubstring("must not be negative: -1 x 2"));
  CHECK_THROWS_AS((Shape{large, large}.size()), Error);
  CHECK(product(Extents<3>{2, 3, 4}) == 24);
}

TEST_CASE("shape: negative extents and too many extents are refused", "[core]") {
  CHECK_THROWS_WITH((Shape{2, -3}), ContainsSubstring("extent 1 of a shape is negative: -3"));
  CHECK_THROWS_WITH((Shape{1, 1, 1, 1, 1, 1, 1}), ContainsSubstring("at most 6 extents, not 7"));
}

TEST_CASE("shape: access from both ends, replacement, text", "[core]") {
  const Shape s{16, 128, 256};
  CHECK(s.rank() == 3);
  CHECK(s[0] == 16);
  CHECK(s[-1] == 256);
  CHECK(s.with(-1, 8) == Shape{16, 128, 8});
  CHECK(s.with(0, 8) == Shape{8, 128, 256});
  CHECK_FALSE(s == Shape{16, 128});
  CHECK(to_string(s) == "(16, 128, 256)");
  CHECK(to_string(Shape{}) == "()");
  CHECK(Shape{}.size() == 1);
}

TEST_CASE("shape: leading extents collapse, missing ones are ones", "[core]") {
  const Shape s{2, 3, 4};
  CHECK(s.collapsed<1>() == Extents<1>{24});
  CHECK(s.collapsed<2>() == Extents<2>{6, 4});
  CHECK(s.collapsed<3>() == Extents<3>{2, 3, 4});
  CHECK(s.collapsed<4>() == Extents<4>{1, 2, 3, 4});
  CHECK(Shape{}.collapsed<2>() == Extents<2>{1, 1});
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK_THROWS_AS((Shape{large, large, 2}.collapsed<2>()), Error);
}

TEST_CASE("error: carries its message and its place", "[core]") {
  try {
    const int found = 3;
    KRAMA_EXPECTS(found == 4, "wanted {}, found {}", 4, found);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(std::string_view(e.what()) == "wanted 4, found 3");
    CHECK(std::string_view(e.where().file_name()).ends_with("test_extents.cpp"));
    CHECK(e.where().line() > 0);
  }
  CHECK_NOTHROW([] { KRAMA_EXPECTS(true, "never"); }());
}

TEST_CASE("error: out of memory names label, bytes and space (O02)", "[core]") {
  const OutOfMemory e("weights", 1234, "Host", "no more");
  CHECK_THAT(e.what(), ContainsSubstring("\"weights\" wants 1234 bytes in Host: no more"));
  CHECK(e.bytes() == 1234);
}
