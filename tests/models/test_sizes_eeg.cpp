// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// The EEG network's shapes are those of its paper's table; the number of parameters, which the paper
// does not print, follows from them.

#include <krama/models/eeg_cnn.hpp>
#include <krama/nn/describe.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama::models;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using krama::Shape;

TEST_CASE("models: the EEG network has the paper's shapes", "[models]") {
  const auto net = eeg_cnn<D, float>({});
  // Behind the pools: 2046 x 4, 1021 x 4, 509 x 10, 253 x 10, 125 x 15; then 50, 20 and 3 neurons.
  const std::vector<Shape> wanted = {{2, 2046, 4}, {2, 1021, 4}, {2, 509, 10},
                                     {2, 253, 10}, {2, 125, 15}, {2, 1875},
                                     {2, 50},      {2, 20},      {2, 3}};
  REQUIRE(net.block_count() == static_cast<int>(wanted.size()));
  for (int b = 0; b < net.block_count(); ++b) {
    CHECK(net.shape(net.writes(b), 2) == wanted[static_cast<std::size_t>(b)]);
  }
  const std::int64_t by_hand = (6 + 1) * 4 + (5 * 4 + 1) * 4 + (4 * 4 + 1) * 10 +
                               (4 * 10 + 1) * 10 + (4 * 10 + 1) * 15 + (1875 + 1) * 50 +
                               (50 + 1) * 20 + (20 + 1) * 3;
  CHECK(by_hand == 96'190);
  CHECK(krama::nn::parameter_count(net) == by_hand);
  CHECK_THAT(krama::nn::describe(net, 2), ContainsSubstring("stages.4") &&
                                              ContainsSubstring("(2, 125, 15)") &&
                                              ContainsSubstring("96190"));
}

TEST_CASE("models: the EEG network counts its operations and takes several electrodes",
          "[models]") {
  const auto net = eeg_cnn<D, float>(
      {.samples = 20, .channels = 3, .stages = {{4, 5}, {2, 3}}, .hidden = {7}, .classes = 2});
  // 20 samples, 16 places, 8; 6 places, 3. A convolution, its rectifiers, its pool.
  CHECK(net.flops(0, 1) == 16 * 2 * 5 * 3 * 4 + 16 * 4 + 8 * 4 * 2);
  CHECK(net.flops(1, 1) == 6 * 2 * 3 * 4 * 2 + 6 * 2 + 3 * 2 * 2);
  CHECK(net.shape(net.output_value(), 4) == Shape{4, 2});
  CHECK(krama::nn::parameter_count(net) ==
        (5 * 3 + 1) * 4 + (3 * 4 + 1) * 2 + (3 * 2 + 1) * 7 + (7 + 1) * 2);
}

TEST_CASE("models: EEG windows that are too short are refused", "[models]") {
  CHECK_THROWS_WITH((eeg_cnn<D, float>({.samples = 40})),
                    ContainsSubstring("windows of 40 samples are too short for 5 stages"));
}
