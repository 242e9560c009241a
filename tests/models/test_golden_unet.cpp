// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// U-Net against PyTorch's numbers (tests/golden/make_network_golden.py), with cropped skips, and with
// padding and odd sizes.

#include <krama/models/unet.hpp>

#include "models/golden.hpp"

namespace {

using D = TestDevice;

template <bool Padded>
struct Unet {
  static constexpr const char* file =
      Padded ? "unet_padded.safetensors" : "unet_cropped.safetensors";
  static constexpr bool images = true;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::unet<D, T>(
        {.height = Padded ? 7 : 18,
         .width = Padded ? 9 : 19,
         .channels = 2,
         .levels = Padded ? std::vector<std::int64_t>{3, 4, 5} : std::vector<std::int64_t>{3, 5},
         .padded = Padded,
         .skips = Padded ? krama::nn::Fit::pad : krama::nn::Fit::crop,
         .classes = 3});
  }
};

}  // namespace

TEMPLATE_TEST_CASE("golden: U-Net, logits, loss, gradients and five AdamW steps of PyTorch, f64",
                   "[models]", Unet<false>, Unet<true>) {
  golden_test::compare<TestType, double>(1e-9);
}

TEMPLATE_TEST_CASE("golden: U-Net, logits, loss, gradients and five AdamW steps of PyTorch, f32",
                   "[models]", Unet<false>, Unet<true>) {
  golden_test::compare<TestType, float>(1e-4);
}
