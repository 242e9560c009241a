// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <vector>

#include <krama/nn/chain.hpp>
#include <krama/nn/layers/conv2d.hpp>
#include <krama/nn/layers/conv_transpose2d.hpp>
#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/max_pool2d.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>

namespace krama::models {

/// U-Net (Ronneberger, Fischer and Brox 2015, arXiv:1505.04597, figure 1). Two 3 x 3 convolutions a
/// level; down by a pool, up by a 2 x 2 transposed convolution whose output is joined behind the
/// channels that the level had on the way down. As it stands the paper's: no padding, so 572 pixels
/// become 388 and the long skips are cropped; 31,030,658 parameters.
struct UnetConfig {
  std::int64_t height = 572;
  std::int64_t width = 572;
  std::int64_t channels = 1;
  std::vector<std::int64_t> levels = {64, 128, 256, 512, 1024};
  bool padded = false;  ///< 3 x 3 convolutions keep the image's size
  nn::Fit skips =
      nn::Fit::crop;     ///< of long skips of another size; `pad` with `padded` keeps odd sizes
  double dropout = 0.0;  ///< at the end of the way down (the paper does not say how much)
  std::int64_t classes = 2;
};

/// Images (samples, height, width, channels) to a logit for each class of every pixel (samples,
/// out_h, out_w, classes).
template <Device D, Scalar T>
nn::Model<D, T> unet(const UnetConfig& c) {
  using namespace nn;
  KRAMA_EXPECTS(c.levels.size() >= 2, "unet: {} levels; two are the least", c.levels.size());
  const auto two_convs = [&](std::int64_t in, std::int64_t out) {
    const auto conv = [&](std::int64_t from) {
      return Conv2d{.in_channels = from,
                    .out_channels = out,
                    .padding = c.padded ? 1 : 0,
                    .init = Init::normal(std::sqrt(2.0 / static_cast<double>(9 * from)))};
    };
    return chain(named("conv1", conv(in)), Relu{}, named("conv2", conv(out)), Relu{});
  };
  Model<D, T> m;
  ValueId x = m.input("images", {c.height, c.width, c.channels});
  std::vector<ValueId> skips;
  std::int64_t in = c.channels;
  const std::size_t bottom = c.levels.size() - 1;
  for (std::size_t l = 0; l < bottom; ++l) {
    const std::string name = "down." + std::to_string(l);
    skips.push_back(m.block(name, two_convs(in, c.levels[l]), x));
    x = m.block(name + ".pool", MaxPool2d{}, skips.back());
    in = c.levels[l];
  }
  x = m.block("bottom", two_convs(in, c.levels[bottom]), x);
  if (c.dropout > 0.0) x = m.block("bottom.dropout", Dropout{.rate = c.dropout}, x);
  for (std::size_t l = bottom; l-- > 0;) {
    const std::string name = "up." + std::to_string(l);
    const ConvTranspose2d up{.in_channels = c.levels[l + 1], .out_channels = c.levels[l]};
    const ValueId coarse = m.block(name + ".grow", chain(named("conv", up)), x);
    const ValueId both = m.concat(name + ".join", {skips[l], coarse}, c.skips);
    x = m.block(name, two_convs(2 * c.levels[l], c.levels[l]), both);
  }
  const Conv2d head{.in_channels = c.levels[0], .out_channels = c.classes, .kernel = 1};
  m.output(m.block("head", chain(named("conv", head)), x));
  return m;
}

}  // namespace krama::models
