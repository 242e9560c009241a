// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Residual networks against PyTorch's numbers (tests/golden/make_network_golden.py).

#include <krama/models/preact_resnet.hpp>
#include <krama/models/resnet.hpp>

#include "models/golden.hpp"

namespace {

using D = TestDevice;

template <bool Bottleneck>
struct Resnet {
  static constexpr const char* file =
      Bottleneck ? "resnet_bottleneck.safetensors" : "resnet_basic.safetensors";
  static constexpr bool images = true;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::resnet<D, T>({.image = 32,
                                        .channels = 2,
                                        .width = 3,
                                        .stages = {2, 1},
                                        .bottleneck = Bottleneck,
                                        .classes = 3});
  }
};
template <bool Bottleneck>
struct Preact {
  static constexpr const char* file =
      Bottleneck ? "preact_bottleneck.safetensors" : "preact_basic.safetensors";
  static constexpr bool images = true;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::preact_resnet<D, T>({.image = 8,
                                               .channels = 2,
                                               .stem = 4,
                                               .widths = {4, Bottleneck ? 5 : 6},
                                               .blocks = 2,
                                               .bottleneck = Bottleneck,
                                               .classes = 3});
  }
};

}  // namespace

TEMPLATE_TEST_CASE("golden: residual networks, evaluation, training and five steps of PyTorch, f64",
                   "[models]", Resnet<false>, Resnet<true>, Preact<false>, Preact<true>) {
  golden_test::compare<TestType, double>(1e-9);
}

TEMPLATE_TEST_CASE("golden: residual networks, evaluation, training and five steps of PyTorch, f32",
                   "[models]", Resnet<false>, Resnet<true>, Preact<false>, Preact<true>) {
  golden_test::compare<TestType, float>(1e-4);
}
