// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <vector>

#include <krama/nn/chain.hpp>
#include <krama/nn/layers/conv2d.hpp>
#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/flatten.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/max_pool2d.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>

namespace krama::models {

/// VGG (Simonyan and Zisserman 2015, table 1): stages of 3 x 3 convolutions, each stage followed by a
/// pool that halves the image, then two hidden layers. As it stands VGG16 (column D): 138,357,544
/// parameters.
struct VggConfig {
  std::int64_t image = 224;  ///< pixels each way; halved by every stage
  std::int64_t channels = 3;
  std::vector<std::vector<std::int64_t>> stages = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  std::int64_t hidden = 4096;
  double dropout = 0.5;
  std::int64_t classes = 1000;
};

/// Images (samples, image, image, channels) to logits (samples, classes). The first hidden layer's
/// inputs are ordered (row, column, channel): weights from elsewhere that are ordered (channel, row,
/// column) must be permuted.
template <Device D, Scalar T>
nn::Model<D, T> vgg(const VggConfig& c) {
  using namespace nn;
  const std::int64_t side = c.image >> c.stages.size();
  KRAMA_EXPECTS(side > 0, "vgg: images of {} pixels cannot be halved {} times", c.image,
                c.stages.size());
  Model<D, T> m;
  ValueId x = m.input("images", {c.image, c.image, c.channels});
  std::int64_t in = c.channels;
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const std::string stage = "stages." + std::to_string(s);
    for (std::size_t i = 0; i < c.stages[s].size(); ++i) {
      const Conv2d conv{.in_channels = in,
                        .out_channels = c.stages[s][i],
                        .padding = 1,
                        .init = Init::kaiming_uniform(9 * in)};
      x = m.block(stage + "." + std::to_string(i), chain(named("conv", conv), Relu{}), x);
      in = c.stages[s][i];
    }
    x = m.block(stage + ".pool", MaxPool2d{}, x);
  }
  const auto linear = [](std::int64_t from, std::int64_t to) {
    return Linear{.in_features = from, .out_features = to, .init = Init::kaiming_uniform(from)};
  };
  x = m.block("hidden.0",
              chain(Flatten{}, named("linear", linear(side * side * in, c.hidden)), Relu{},
                    Dropout{.rate = c.dropout}),
              x);
  x = m.block(
      "hidden.1",
      chain(named("linear", linear(c.hidden, c.hidden)), Relu{}, Dropout{.rate = c.dropout}), x);
  x = m.block("head", chain(named("linear", linear(c.hidden, c.classes))), x);
  m.output(x);
  return m;
}

}  // namespace krama::models
