// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// The EEG network against PyTorch's numbers (tests/golden/make_network_golden.py).

#include <krama/models/eeg_cnn.hpp>

#include "models/golden.hpp"

namespace {

using D = TestDevice;

struct Eeg {
  static constexpr const char* file = "eeg.safetensors";
  static constexpr bool images = true;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::eeg_cnn<D, T>({.samples = 31,
                                         .channels = 2,
                                         .stages = {{3, 5}, {4, 4}, {5, 3}},
                                         .hidden = {6},
                                         .classes = 3});
  }
};

}  // namespace

TEST_CASE("golden: EEG network, logits, loss, gradients and five AdamW steps of PyTorch, f64",
          "[models]") {
  golden_test::compare<Eeg, double>(1e-9);
}

TEST_CASE("golden: EEG network, logits, loss, gradients and five AdamW steps of PyTorch, f32",
          "[models]") {
  golden_test::compare<Eeg, float>(1e-4);
}
