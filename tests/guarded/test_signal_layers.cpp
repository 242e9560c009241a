// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/adaptive_avg_pool2d.hpp>
#include <krama/nn/layers/avg_pool1d.hpp>
#include <krama/nn/layers/conv1d.hpp>
#include <krama/nn/layers/conv_transpose2d.hpp>
#include <krama/nn/layers/max_pool1d.hpp>

#include "guarded/on_device.hpp"

#include <catch2/catch_all.hpp>

using namespace krama::nn;
using guarded_test::check;

TEST_CASE("guarded: convolutions of signals", "[guarded]") {
  check(Conv1d{.in_channels = 3, .out_channels = 4, .stride = 2, .padding = 1}, {2, 9, 3}, 1e-5);
  check(Conv1d{.in_channels = 6, .out_channels = 4, .dilation = 2, .groups = 2, .bias = false},
        {3, 8, 6}, 1e-5);
  check(Conv1d{.in_channels = 5, .out_channels = 5, .kernel = 4, .padding = 2, .groups = 5},
        {2, 7, 5}, 1e-5);
}

TEST_CASE("guarded: transposed convolutions", "[guarded]") {
  check(ConvTranspose2d{.in_channels = 3, .out_channels = 4}, {2, 4, 3, 3}, 1e-5);
  check(
      ConvTranspose2d{.in_channels = 4, .out_channels = 6, .kernel = 3, .padding = 1, .groups = 2},
      {2, 3, 3, 4}, 1e-5);
  check(ConvTranspose2d{.in_channels = 5,
                        .out_channels = 5,
                        .kernel = 3,
                        .output_padding = {1, 0},
                        .groups = 5,
                        .bias = false},
        {1, 3, 2, 5}, 1e-5);
}

TEST_CASE("guarded: pools of signals", "[guarded]") {
  check(MaxPool1d{.kernel = 3, .stride = 2, .padding = 1}, {2, 7, 5}, 0.0);
  check(MaxPool1d{.kernel = 2, .stride = 3}, {2, 8, 40}, 0.0);
  check(AvgPool1d{.kernel = 3, .stride = 2, .padding = 1}, {2, 7, 5}, 1e-6);
  check(AvgPool1d{.kernel = 3, .stride = 1, .padding = 1, .count_padding = false}, {2, 7, 40},
        1e-6);
}

TEST_CASE("guarded: adaptive pools", "[guarded]") {
  check(AdaptiveAvgPool2d{{3, 2}}, {2, 7, 5, 3}, 1e-6);
  check(AdaptiveAvgPool2d{{5, 4}}, {1, 3, 2, 40}, 1e-6);
}
