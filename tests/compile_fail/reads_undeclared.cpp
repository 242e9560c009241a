// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A layer's backward may read only what the layer declared in `saves`.
#include <krama/nn/layer.hpp>

using namespace krama;

struct Square {
  static constexpr std::string_view type_name = "square";
#ifdef KRAMA_COMPILES
  static constexpr nn::Saves saves = nn::Saves::input;
#else
  static constexpr nn::Saves saves = nn::Saves::output;
#endif
};

float f(const nn::SavedOf<Square, DefaultDevice, float>& saved) { return saved.x(0); }
