// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Layers on their own against PyTorch's numbers (tests/golden/make_layer_golden.py), in training and in
// evaluation, where all of these do the same.

#include <krama/io/safetensors.hpp>
#include <krama/nn/layers/adaptive_avg_pool2d.hpp>
#include <krama/nn/layers/avg_pool1d.hpp>
#include <krama/nn/layers/conv1d.hpp>
#include <krama/nn/layers/conv_transpose2d.hpp>
#include <krama/nn/layers/max_pool1d.hpp>

#include "nn/run_layer.hpp"

#include <catch2/catch_all.hpp>
#include <string>

namespace {

using namespace krama;
using namespace krama::nn;

template <class T>
std::vector<T> narrowed(const std::vector<double>& v) {
  return {v.begin(), v.end()};
}

/// The golden case `name` of shape `in`, in both modes and both ways of convolution.
template <class T, class L>
void compare(const std::string& name, const L& layer, const Shape& in) {
  CAPTURE(name);
  const double tolerance = std::is_same_v<T, double> ? 1e-9 : 1e-4;
  const io::SafetensorsReader golden(std::string(KRAMA_GOLDEN_DIR) + "/layers.safetensors");
  const auto numbers = [&](const char* what) { return golden.read<double>(name + "/" + what); };
  ParamSpec spec;
  declare_params(layer, spec);
  const bool learns = !spec.infos().empty();
  const auto params = learns ? narrowed<T>(numbers("p")) : std::vector<T>{};
  for (const bool training : {true, false}) {
    for (const auto door : {kernels::ConvDoor::portable, kernels::ConvDoor::onednn}) {
      const kernels::ForcedConvDoor forced(door);
      const auto got = test::run_layer<T>(layer, in, narrowed<T>(numbers("x")), params,
                                          narrowed<T>(numbers("dy")), training);
      CHECK(test::worst_relative(got.y, numbers("y")) < tolerance);
      CHECK(test::worst_relative(got.dx, numbers("dx")) < tolerance);
      if (learns) CHECK(test::worst_relative(got.grads, numbers("g")) < tolerance);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("golden: convolutions of signals are PyTorch's", "[models]", double, float) {
  compare<TestType>(
      "conv1d", Conv1d{.in_channels = 3, .out_channels = 4, .stride = 2, .padding = 1}, {2, 7, 3});
  compare<TestType>("conv1d.dilated",
                    Conv1d{.in_channels = 2, .out_channels = 3, .padding = 2, .dilation = 2},
                    {2, 9, 2});
  compare<TestType>("conv1d.groups",
                    Conv1d{.in_channels = 4, .out_channels = 6, .groups = 2, .bias = false},
                    {2, 6, 4});
  compare<TestType>(
      "conv1d.depthwise",
      Conv1d{.in_channels = 5, .out_channels = 5, .kernel = 4, .padding = 1, .groups = 5},
      {1, 8, 5});
}

TEMPLATE_TEST_CASE("golden: transposed convolutions are PyTorch's", "[models]", double, float) {
  compare<TestType>("conv_transpose2d", ConvTranspose2d{.in_channels = 3, .out_channels = 2},
                    {2, 3, 2, 3});
  compare<TestType>(
      "conv_transpose2d.uneven",
      ConvTranspose2d{
          .in_channels = 2, .out_channels = 3, .kernel = 3, .padding = 1, .output_padding = {1, 0}},
      {1, 3, 4, 2});
  compare<TestType>("conv_transpose2d.groups",
                    ConvTranspose2d{.in_channels = 4,
                                    .out_channels = 4,
                                    .kernel = {2, 3},
                                    .stride = {1, 2},
                                    .dilation = {2, 1},
                                    .groups = 2,
                                    .bias = false},
                    {1, 3, 2, 4});
}

TEMPLATE_TEST_CASE("golden: pools of signals and adaptive pools are PyTorch's", "[models]", double,
                   float) {
  const Shape signals{2, 7, 3};
  compare<TestType>("max_pool1d", MaxPool1d{3, 2, 1}, signals);
  compare<TestType>("avg_pool1d", AvgPool1d{3, 2, 1}, signals);
  compare<TestType>("avg_pool1d.inside", AvgPool1d{3, 2, 1, false}, signals);
  compare<TestType>("adaptive_avg_pool2d", AdaptiveAvgPool2d{{3, 2}}, {2, 7, 5, 3});
  compare<TestType>("adaptive_avg_pool2d.larger", AdaptiveAvgPool2d{{5, 3}}, {1, 3, 2, 2});
}
