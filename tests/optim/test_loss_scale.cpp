// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/optim/loss_scale.hpp>

#include <catch2/catch_all.hpp>
#include <limits>

using Catch::Matchers::ContainsSubstring;
using krama::optim::LossScaler;
using krama::optim::LossScaling;

TEST_CASE("loss scale: without scaling it is 1, and what is not finite cannot be skipped",
          "[optim]") {
  LossScaler s;
  CHECK_FALSE(s.on());
  CHECK(s.after_step(true));
  CHECK_FALSE(s.after_step(false));
  CHECK(s.scale() == 1.0);
  CHECK(s.text().empty());
}

TEST_CASE("loss scale: falls at once, grows after a number of good steps in a row", "[optim]") {
  LossScaler s({.initial = 64, .growth_interval = 3});
  CHECK(s.after_step(true));
  CHECK(s.after_step(true));
  CHECK(s.scale() == 64.0);
  CHECK(s.after_step(false));  // begins to count anew
  CHECK(s.scale() == 32.0);
  CHECK(s.after_step(true));
  CHECK(s.after_step(true));
  CHECK(s.scale() == 32.0);
  CHECK(s.after_step(true));
  CHECK(s.scale() == 64.0);
  for (int i = 0; i < 3; ++i) CHECK(s.after_step(true));
  CHECK(s.scale() == 128.0);
}

TEST_CASE("loss scale: stays between its bounds", "[optim]") {
  LossScaler s({.initial = 2,
                .growth = 4,
                .backoff = 0.25,
                .growth_interval = 1,
                .smallest = 0.5,
                .largest = 16});
  CHECK(s.after_step(true));
  CHECK(s.scale() == 8.0);
  CHECK(s.after_step(true));
  CHECK(s.scale() == 8.0);  // 32 is too large
  CHECK(s.after_step(false));
  CHECK(s.after_step(false));
  CHECK(s.scale() == 0.5);
  CHECK_FALSE(s.after_step(false));  // nothing lower is left
  CHECK(s.scale() == 0.5);
}

TEST_CASE("loss scale: goes on from its text", "[optim]") {
  const LossScaling options{.initial = 64, .growth_interval = 3};
  LossScaler first(options);
  CHECK(first.after_step(false));
  CHECK(first.after_step(true));
  CHECK(first.text() == "32 1");
  LossScaler second(options);
  second.resume(first.text());
  CHECK(second.scale() == 32.0);
  CHECK(second.good_steps() == 1);
  second.resume("");  // of a run without scaling
  CHECK(second.scale() == 32.0);
  LossScaler off;
  off.resume("32 1");
  CHECK(off.scale() == 1.0);
  for (const char* text : {"x", "32", "32 -1", "31 1", "32 1 2", "nan 0"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(second.resume(text), ContainsSubstring("no scale with a number of steps"));
  }
}

TEST_CASE("loss scale: options that round or cannot work are refused", "[optim]") {
  const auto with = [](const LossScaling& o) { return LossScaler(o); };
  CHECK_THROWS_WITH(with({.initial = 1000}),
                    ContainsSubstring("powers of two") && ContainsSubstring("found 1000"));
  CHECK_THROWS_WITH(with({.initial = 64, .growth = 1.5}), ContainsSubstring("found 1.5"));
  CHECK_THROWS_WITH(with({.initial = 64, .backoff = 1.0}), ContainsSubstring("below 1"));
  CHECK_THROWS_WITH(with({.initial = 64, .growth_interval = 0}), ContainsSubstring("positive"));
  CHECK_THROWS_WITH(with({.initial = 64, .largest = 32}), ContainsSubstring("outside"));
  CHECK_THROWS_AS(with({.initial = -2}), krama::Error);
  CHECK_THROWS_AS(with({.initial = std::numeric_limits<double>::infinity()}), krama::Error);
}
