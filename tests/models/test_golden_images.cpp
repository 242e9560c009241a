// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/models/lenet.hpp>
#include <krama/models/vgg.hpp>

#include "models/golden.hpp"

namespace {

using D = TestDevice;

struct Lenet {
  static constexpr const char* file = "lenet.safetensors";
  static constexpr bool images = true;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::lenet<D, T>(
        {.image = 16, .channels = 2, .c1 = 4, .c3 = 3, .c5 = 6, .f6 = 5, .classes = 3});
  }
};
struct Vgg {
  static constexpr const char* file = "vgg.safetensors";
  static constexpr bool images = true;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::vgg<D, T>({.image = 8,
                                     .channels = 3,
                                     .stages = {{4, 5}, {6}},
                                     .hidden = 10,
                                     .dropout = 0.0,
                                     .classes = 5});
  }
};

}  // namespace

TEMPLATE_TEST_CASE("golden: images, logits, loss, gradients and five AdamW steps of PyTorch, f64",
                   "[models]", Lenet, Vgg) {
  golden_test::compare<TestType, double>(1e-9);
}

TEMPLATE_TEST_CASE("golden: images, logits, loss, gradients and five AdamW steps of PyTorch, f32",
                   "[models]", Lenet, Vgg) {
  golden_test::compare<TestType, float>(1e-4);
}
