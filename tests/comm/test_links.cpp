// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/links.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

using Catch::Matchers::ContainsSubstring;
using krama::Link;
using krama::LinkTable;

TEST_CASE("links: a message takes its latency and its bytes", "[comm]") {
  const Link l{0.5, 4.0};
  CHECK(l.seconds(0) == 0.5);
  CHECK(l.seconds(6) == 2.0);
}

TEST_CASE("links: each ordered pair has its own", "[comm]") {
  LinkTable t(3);
  CHECK(t.groups() == 3);
  CHECK(t.link(2, 1) == krama::assumed_link);
  t.set(2, 1, {1e-3, 7.0});
  CHECK(t.link(2, 1) == Link{1e-3, 7.0});
  CHECK(t.link(1, 2) == krama::assumed_link);
  CHECK(LinkTable().groups() == 1);
  CHECK(LinkTable(2, {1.0, 2.0}).link(1, 1) == Link{1.0, 2.0});
}

TEST_CASE("links: what is none is refused", "[comm]") {
  LinkTable t(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Link l : {Link{-1e-9, 1}, Link{0, 0}, Link{0, -1}, Link{nan, 1}, Link{0, nan},
                       Link{infinity, 1}, Link{0, infinity}}) {
    CHECK_THROWS_WITH(t.set(0, 1, l), ContainsSubstring("from group 0 to group 1: a latency of"));
    CHECK_THROWS_AS(LinkTable(1, l), krama::Error);
  }
  CHECK(t.link(0, 1) == krama::assumed_link);
  for (const int g : {-1, 2}) {
    CHECK_THROWS_WITH(t.set(g, 0, {}), ContainsSubstring("of 2 groups"));
    CHECK_THROWS_WITH(t.link(0, g), ContainsSubstring("of 2 groups"));
  }
  CHECK_THROWS_WITH(LinkTable(0), ContainsSubstring("0 groups"));
  CHECK_THROWS_AS(LinkTable(LinkTable::most_groups + 1), krama::Error);
}

TEST_CASE("links: text brings back the same bits", "[comm]") {
  std::mt19937_64 random(11);
  for (int groups = 1; groups <= 5; ++groups) {
    LinkTable t(groups);
    for (int a = 0; a < groups; ++a) {
      for (int b = 0; b < groups; ++b) {
        const double scale = static_cast<double>(random() >> 11) * 0x1p-53;
        t.set(a, b, {scale * 1e-5, 1.0 / (scale + 1e-12)});
      }
    }
    CHECK(LinkTable::parse(t.text()) == t);
  }
  LinkTable edge(1,
                 {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()});
  CHECK(LinkTable::parse(edge.text()) == edge);
  CHECK(LinkTable(1, {0, 1e9}).text() == "links 1\n0 0 0 1000000000\n");
}

TEST_CASE("links: text that nobody wrote is refused, with its line", "[comm]") {
  const std::string good = LinkTable(2).text();
  CHECK(LinkTable::parse(good).groups() == 2);
  struct Bad {
    std::string text;
    std::string says;
  };
  const std::vector<Bad> all{
      {"", "line 1"},
      {"lines 2\n", "line 1 wants \"links\""},
      {"links two\n", "line 1 wants a number at \"two\""},
      {"links 0\n", "0 groups"},
      {"links 99999\n", "99999 groups"},
      {"links 1\n0 0 nan 1\n", "a latency of nan"},
      {"links 1\n0 0 1e-6 -4\n", "-4 bytes/s"},
      {"links 1\n0 0 1e-6\n", "line 2 wants a number at \"\""},
      {"links 1\n0 0 1e-6 4 5\n", "line 2 wants \"\n\""},
      {"links 2\n0 0 0 1\n1 0 0 1\n", "line 3 is of pair 1 0; wanted pair 0 1"},
      {"links 2\n0 0 0 1\n0 0 0 1\n", "line 3 is of pair 0 0; wanted pair 0 1"},
      {good + "0 0 0 1\n", "more follows after the 5 lines of 2 groups"},
  };
  for (const auto& bad : all) {
    CAPTURE(bad.text);
    CHECK_THROWS_WITH(LinkTable::parse(bad.text), ContainsSubstring(bad.says));
  }
  for (std::size_t n = 0; n < good.size(); ++n) {
    CHECK_THROWS_AS(LinkTable::parse(std::string_view(good).substr(0, n)), krama::Error);
  }
}
