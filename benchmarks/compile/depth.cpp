// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A GPT of BLOCKS blocks; compiled only (compile_time.py), to see that depth costs nothing.

#include <krama/models/gpt.hpp>

krama::nn::Model<krama::DefaultDevice, float> make_model() {
  return krama::models::gpt<krama::DefaultDevice, float>({.layers = BLOCKS});
}
