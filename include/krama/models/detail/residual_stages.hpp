// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <krama/models/detail/plain_conv.hpp>

namespace krama::models::detail {

/// One block of a residual network, in the order of its layers.
struct ResidualPlace {
  std::string name;  ///< "stages.1.0"
  std::int64_t in = 0;
  std::int64_t width = 0;
  std::int64_t stride = 1;
  bool keeps = true;    ///< the shape; then the shortcut is the input itself
  nn::Conv2d shortcut;  ///< from the input's channels to the block's, where it does not
};

/// Calls `add(place)` for every block of `stages` stages behind `in` channels: `width(s)` is a stage's
/// width, `blocks(s)` how many it has, and a block's output has `expansion` times the width. The first
/// block of every stage but the first halves the image. \return the channels of the last block
template <class Width, class Blocks, class Add>
std::int64_t residual_stages(std::int64_t in, std::size_t stages, std::int64_t expansion,
                             Width&& width, Blocks&& blocks, Add&& add) {
  for (std::size_t s = 0; s < stages; ++s) {
    const std::int64_t out = expansion * width(s);
    for (std::int64_t i = 0; i < blocks(s); ++i) {
      const std::int64_t stride = s > 0 && i == 0 ? 2 : 1;
      add(ResidualPlace{"stages." + std::to_string(s) + "." + std::to_string(i), in, width(s),
                        stride, stride == 1 && in == out, plain_conv(in, out, 1, stride)});
      in = out;
    }
  }
  return in;
}

}  // namespace krama::models::detail
