// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <vector>

#include <krama/models/detail/residual_stages.hpp>
#include <krama/nn/chain.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/global_avg_pool2d.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/max_pool2d.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>
#include <krama/nn/residual.hpp>

namespace krama::models {

/// ResNet (He et al. 2016, arXiv:1512.03385, table 1). As it stands ResNet-50: 25,557,032 parameters.
/// A stage's first block halves the image (but for the first stage, behind the pool). A bottleneck
/// strides in its 3 x 3 convolution, not in the first 1 x 1 as the paper's: the form called 1.5,
/// torchvision's.
struct ResnetConfig {
  std::int64_t image = 224;  ///< pixels each way
  std::int64_t channels = 3;
  std::int64_t width = 64;  ///< of the first stage; each stage is twice as wide as the one before
  std::vector<std::int64_t> stages = {3, 4, 6, 3};  ///< blocks
  bool bottleneck = true;  ///< 1 x 1, 3 x 3, 1 x 1 to 4 times the width; else two of 3 x 3
  std::int64_t classes = 1000;
};

inline ResnetConfig resnet18() { return {.stages = {2, 2, 2, 2}, .bottleneck = false}; }
inline ResnetConfig resnet34() { return {.stages = {3, 4, 6, 3}, .bottleneck = false}; }
inline ResnetConfig resnet50() { return {.stages = {3, 4, 6, 3}}; }
inline ResnetConfig resnet101() { return {.stages = {3, 4, 23, 3}}; }
inline ResnetConfig resnet152() { return {.stages = {3, 8, 36, 3}}; }
/// He et al. 2016, arXiv:1603.05027, but with this file's blocks.
inline ResnetConfig resnet200() { return {.stages = {3, 24, 36, 3}}; }

namespace detail {

/// f of a block relu(f(x) + shortcut(x)), once for either kind of block.
inline auto basic_branch(std::int64_t in, std::int64_t width, std::int64_t stride) {
  using namespace nn;
  return chain(named("conv1", plain_conv(in, width, 3, stride)),
               named("norm1", BatchNorm{.channels = width}), Relu{},
               named("conv2", plain_conv(width, width, 3)),
               named("norm2", BatchNorm{.channels = width}));
}
inline auto bottleneck_branch(std::int64_t in, std::int64_t width, std::int64_t stride) {
  using namespace nn;
  return chain(named("conv1", plain_conv(in, width, 1)),
               named("norm1", BatchNorm{.channels = width}), Relu{},
               named("conv2", plain_conv(width, width, 3, stride)),
               named("norm2", BatchNorm{.channels = width}), Relu{},
               named("conv3", plain_conv(width, 4 * width, 1)),
               named("norm3", BatchNorm{.channels = 4 * width}));
}

/// One block. Where it keeps the shape it is one block of the model, the unit of recomputation.
template <Device D, class T, class Branch>
nn::ValueId resnet_block(nn::Model<D, T>& m, const ResidualPlace& p, Branch branch, nn::ValueId x) {
  using namespace nn;
  if (p.keeps) {
    return m.block(p.name, chain(named("branch", residual(std::move(branch))), Relu{}), x);
  }
  const BatchNorm norm{.channels = p.shortcut.out_channels};
  const ValueId f = m.block(p.name + ".branch", std::move(branch), x);
  const ValueId s =
      m.block(p.name + ".shortcut", chain(named("conv", p.shortcut), named("norm", norm)), x);
  return m.block(p.name + ".relu", Relu{}, m.add(p.name + ".sum", {f, s}));
}

}  // namespace detail

/// Images (samples, image, image, channels) to logits (samples, classes).
template <Device D, Scalar T>
nn::Model<D, T> resnet(const ResnetConfig& c) {
  using namespace nn;
  using detail::plain_conv;
  KRAMA_EXPECTS(c.width > 0 && !c.stages.empty(), "resnet: {} stages of width {}", c.stages.size(),
                c.width);
  Model<D, T> m;
  ValueId x = m.input("images", {c.image, c.image, c.channels});
  x = m.block("stem",
              chain(named("conv", plain_conv(c.channels, c.width, 7, 2)),
                    named("norm", BatchNorm{.channels = c.width}), Relu{},
                    MaxPool2d{.kernel = 3, .stride = 2, .padding = 1}),
              x);
  const std::int64_t features = detail::residual_stages(
      c.width, c.stages.size(), c.bottleneck ? 4 : 1, [&](std::size_t s) { return c.width << s; },
      [&](std::size_t s) { return c.stages[s]; },
      [&](const detail::ResidualPlace& p) {
        x = c.bottleneck
                ? detail::resnet_block(m, p, detail::bottleneck_branch(p.in, p.width, p.stride), x)
                : detail::resnet_block(m, p, detail::basic_branch(p.in, p.width, p.stride), x);
      });
  const Linear head{.in_features = features, .out_features = c.classes};
  m.output(m.block("head", chain(GlobalAvgPool2d{}, named("linear", head)), x));
  return m;
}

}  // namespace krama::models
