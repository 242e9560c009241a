// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/core/random.hpp>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdint>
#include <set>

using namespace krama;
using Catch::Approx;

TEST_CASE("philox: known answers of Random123", "[core]") {
  struct Known {
    std::uint32_t counter[4], key[2], answer[4];
  };
  const Known known[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                         {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                          {0xffffffff, 0xffffffff},
                          {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                         {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                          {0xa4093822, 0x299f31d0},
                          {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const auto& k : known) {
    const RandomKey key{k.key[0] | std::uint64_t{k.key[1]} << 32, k.counter[2], k.counter[3]};
    const auto words = philox(key, k.counter[0] | std::uint64_t{k.counter[1]} << 32);
    for (std::size_t i = 0; i < 4; ++i) CHECK(words[i] == k.answer[i]);
  }
}

TEST_CASE("uniform: in [0, 1), four numbers a counter, mean one half", "[core]") {
  const RandomKey key{7, 8, 9};
  double sum = 0;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    const float u = uniform(key, i);
    if (u < 0.0F || u >= 1.0F) FAIL("out of range: " << u);
    sum += static_cast<double>(u);
  }
  CHECK(sum / 40000.0 == Approx(0.5).margin(0.01));
  CHECK(uniform(key, 6) == static_cast<float>(philox(key, 1)[2] >> 8) * 0x1p-24F);
}

TEST_CASE("normal: mean, variance and tails", "[core]") {
  const RandomKey key{1, 2, 0};
  double sum = 0, squares = 0;
  int beyond_two = 0;
  const int n = 40000;
  for (int i = 0; i < n; ++i) {
    const double v = normal(key, static_cast<std::uint64_t>(i));
    REQUIRE(std::isfinite(v));
    sum += v;
    squares += v * v;
    beyond_two += std::abs(v) > 2.0 ? 1 : 0;
  }
  CHECK(sum / n == Approx(0.0).margin(0.02));
  CHECK(squares / n == Approx(1.0).margin(0.03));
  CHECK(static_cast<double>(beyond_two) / n == Approx(0.0455).margin(0.005));
}

TEST_CASE("random: streams, steps and seeds do not share numbers (N18)", "[core]") {
  std::set<std::uint32_t> seen;
  std::size_t drawn = 0;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const std::uint32_t stream : {1U, 2U}) {
      for (const std::uint32_t step : {1U, 2U}) {
        for (std::uint64_t i = 0; i < 4; ++i) {
          for (std::size_t w = 0; w < 4; ++w) seen.insert(philox({seed, stream, step}, i)[w]);
          drawn += 4;
        }
      }
    }
  }
  CHECK(seen.size() == drawn);
}
