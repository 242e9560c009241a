// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/nn/chain.hpp>
#include <krama/nn/layers/conv2d.hpp>
#include <krama/nn/layers/flatten.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/max_pool2d.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>

namespace krama::models {

/// LeNet-5 (LeCun et al. 1998) in today's form: ReLU for the squashing functions, maxima for the
/// trained averages, every map of C3 connected to all of S2, a linear output. 61,706 parameters.
struct LenetConfig {
  std::int64_t image = 28;  ///< pixels each way; C1 fills up with two zeros on each side
  std::int64_t channels = 1;
  std::int64_t c1 = 6;
  std::int64_t c3 = 16;
  std::int64_t c5 = 120;
  std::int64_t f6 = 84;
  std::int64_t classes = 10;
};

/// Images (samples, image, image, channels) to logits (samples, classes).
template <Device D, Scalar T>
nn::Model<D, T> lenet(const LenetConfig& c) {
  using namespace nn;
  KRAMA_EXPECTS(c.image >= 12, "lenet: images of {} pixels are too small; 12 are the least",
                c.image);
  const auto conv = [](std::int64_t in, std::int64_t out, std::int64_t padding) {
    return Conv2d{.in_channels = in,
                  .out_channels = out,
                  .kernel = 5,
                  .padding = padding,
                  .init = Init::kaiming_uniform(25 * in)};
  };
  const auto linear = [](std::int64_t in, std::int64_t out) {
    return Linear{.in_features = in, .out_features = out, .init = Init::kaiming_uniform(in)};
  };
  const std::int64_t side = (c.image / 2 - 4) / 2;
  Model<D, T> m;
  ValueId x = m.input("images", {c.image, c.image, c.channels});
  x = m.block("c1", chain(named("conv", conv(c.channels, c.c1, 2)), Relu{}, MaxPool2d{}), x);
  x = m.block("c3", chain(named("conv", conv(c.c1, c.c3, 0)), Relu{}, MaxPool2d{}), x);
  x = m.block("c5", chain(Flatten{}, named("linear", linear(side * side * c.c3, c.c5)), Relu{}), x);
  x = m.block("f6", chain(named("linear", linear(c.c5, c.f6)), Relu{}), x);
  x = m.block("head", chain(named("linear", linear(c.f6, c.classes))), x);
  m.output(x);
  return m;
}

}  // namespace krama::models
