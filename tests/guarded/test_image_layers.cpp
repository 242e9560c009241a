// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/chain.hpp>
#include <krama/nn/layers/avg_pool2d.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/conv2d.hpp>
#include <krama/nn/layers/flatten.hpp>
#include <krama/nn/layers/global_avg_pool2d.hpp>
#include <krama/nn/layers/group_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/max_pool2d.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/layers/upsample.hpp>

#include "guarded/on_device.hpp"

#include <catch2/catch_all.hpp>

using namespace krama::nn;
using guarded_test::check;

TEST_CASE("guarded: convolutions of images", "[guarded]") {
  check(Conv2d{.in_channels = 3, .out_channels = 4, .stride = 2, .padding = 1}, {2, 7, 5, 3}, 1e-5);
  check(Conv2d{.in_channels = 6, .out_channels = 3, .stride = 2, .dilation = 2, .groups = 3},
        {1, 8, 7, 6}, 1e-5);
  check(Conv2d{.in_channels = 5, .out_channels = 5, .padding = 1, .groups = 5}, {2, 4, 5, 5}, 1e-5);
  check(Conv2d{.in_channels = 7, .out_channels = 5, .kernel = 1, .bias = false}, {2, 3, 4, 7},
        1e-5);
}

TEST_CASE("guarded: pools of images", "[guarded]") {
  for (const auto& layer : {MaxPool2d{}, MaxPool2d{3, 2, 1}}) {
    const krama::testing::DelayedWork delayed;
    const krama::Shape in{1, 4, 4, 3};
    // Steps smaller than the distance of a window's two largest elements.
    CHECK(krama::testing::check_layer<guarded_test::Guarded, float>(
              layer, in, {.step = 3e-4, .tolerance = 1e-2})
              .text() == "");
    const auto there = guarded_test::run<guarded_test::Guarded>(layer, in, 0);
    const auto here = guarded_test::run<guarded_test::Host>(layer, in, 0);
    CHECK(there.y == here.y);
    CHECK(there.dx == here.dx);
  }
  check(AvgPool2d{3, 2, 1}, {2, 5, 4, 3}, 1e-6);
  check(GlobalAvgPool2d{}, {3, 2, 2, 70}, 1e-6);
  check(Flatten{}, {2, 3, 2, 4}, 0.0);
}

TEST_CASE("guarded: upsampling", "[guarded]") {
  check(Upsample{2, Interpolation::nearest}, {2, 3, 4, 2}, 1e-6);
  check(Upsample{3, Interpolation::bilinear}, {1, 2, 5, 3}, 1e-6);
}

TEST_CASE("guarded: norms over images", "[guarded]") {
  check(GroupNorm{.groups = 2, .channels = 6}, {3, 2, 5, 6}, 1e-5);
  check(BatchNorm{.channels = 5}, {2, 3, 4, 5}, 1e-5);
  check(BatchNorm{.channels = 70}, {9, 70}, 1e-5);
}

TEST_CASE("guarded: a small network of images", "[guarded]") {
  check(chain(named("conv", Conv2d{.in_channels = 2, .out_channels = 6, .padding = 1}),
              named("norm", BatchNorm{.channels = 6}), Relu{}, AvgPool2d{}, Flatten{},
              named("head", Linear{.in_features = 24, .out_features = 3})),
        {4, 4, 4, 2}, 1e-4);
}
