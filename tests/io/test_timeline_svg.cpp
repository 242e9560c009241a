// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/io/timeline_svg.hpp>

#include <catch2/catch_all.hpp>
#include <limits>

using Catch::Matchers::ContainsSubstring;
using krama::io::TimelineSvg;

TEST_CASE("timeline: boxes lie where their times say", "[io]") {
  TimelineSvg svg;
  const auto compute = svg.row("rank 0 <compute>");
  const auto link = svg.row("rank 0 link");
  // 100 us in all over 1240 points, from 160 on.
  svg.box(compute, "forward & 0", 0, 50, 25);
  svg.box(link, "swap_out 0", 1, 75, 75);
  const auto text = svg.text();
  CHECK_THAT(text, ContainsSubstring("<rect x=\"160.00\" y=\"2.00\" width=\"310.00\""));
  CHECK_THAT(text, ContainsSubstring("<rect x=\"470.00\" y=\"26.00\" width=\"930.00\""));
  CHECK_THAT(text, ContainsSubstring("forward &amp; 0, 25.00 us"));
  CHECK_THAT(text, ContainsSubstring("rank 0 &lt;compute>"));
  CHECK_THAT(text, ContainsSubstring("0.10 ms"));
}

TEST_CASE("timeline: impossible boxes are refused, an empty picture is one", "[io]") {
  TimelineSvg svg;
  CHECK_THAT(svg.text(), ContainsSubstring("</svg>"));
  CHECK_THROWS_AS(svg.box(0, "nowhere", 0, 0, 1), std::invalid_argument);
  const auto row = svg.row("row");
  CHECK_THROWS_AS(svg.box(row, "backwards", 0, 0, -1), std::invalid_argument);
  CHECK_THROWS_AS(svg.box(row, "never", 0, std::numeric_limits<double>::quiet_NaN(), 1),
                  std::invalid_argument);
}
