// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/models/gpt.hpp>
#include <krama/models/llama.hpp>

#include "models/golden.hpp"

namespace {

using D = TestDevice;

struct Gpt {
  static constexpr const char* file = "gpt.safetensors";
  static constexpr bool images = false;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::gpt<D, T>(
        {.vocabulary = 11, .context = 6, .features = 8, .layers = 2, .heads = 2});
  }
};
struct Llama {
  static constexpr const char* file = "llama.safetensors";
  static constexpr bool images = false;
  template <class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::llama<D, T>({.vocabulary = 11,
                                       .context = 6,
                                       .features = 16,
                                       .layers = 2,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .hidden = 20});
  }
};

}  // namespace

TEMPLATE_TEST_CASE("golden: logits, loss, gradients and five AdamW steps of PyTorch, f64",
                   "[models]", Gpt, Llama) {
  golden_test::compare<TestType, double>(1e-9);
}

TEMPLATE_TEST_CASE("golden: logits, loss, gradients and five AdamW steps of PyTorch, f32",
                   "[models]", Gpt, Llama) {
  golden_test::compare<TestType, float>(1e-4);
}
