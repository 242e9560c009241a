// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <vector>

#include <krama/models/detail/residual_stages.hpp>
#include <krama/nn/chain.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/global_avg_pool2d.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>
#include <krama/nn/residual.hpp>

namespace krama::models {

/// Residual networks for small images whose blocks are x + f(relu(norm(x))): pre-activation ResNet
/// (He et al. 2016, arXiv:1603.05027) and Wide ResNet (Zagoruyko and Komodakis 2016,
/// arXiv:1605.07146, table 1). Three stages, each but the first halves the image. Where a block
/// changes the shape, a 1 x 1 convolution of the same relu(norm(x)) replaces x, as in the authors'
/// code.
struct PreactResnetConfig {
  std::int64_t image = 32;  ///< pixels each way
  std::int64_t channels = 3;
  std::int64_t stem = 16;
  std::vector<std::int64_t> widths = {16, 32, 64};  ///< of the stages
  std::int64_t blocks = 0;                          ///< of each stage
  bool bottleneck = false;  ///< 1 x 1, 3 x 3, 1 x 1 to 4 times the width; else two of 3 x 3
  double dropout = 0.0;     ///< between the 3 x 3 convolutions
  std::int64_t classes = 10;
};

/// The CIFAR ResNet of 9 blocks + 2 layers (1001: 111 blocks a stage; 10.3 million parameters).
inline PreactResnetConfig resnet1001() { return {.blocks = 111, .bottleneck = true}; }
/// WRN-depth-widening, of 6 blocks + 4 layers (WRN-28-10: 36.5 million parameters).
inline PreactResnetConfig wide_resnet(std::int64_t depth, std::int64_t widening) {
  KRAMA_EXPECTS(depth > 4 && (depth - 4) % 6 == 0,
                "wide_resnet: the depth must be 6 blocks + 4, such as 28; found {}", depth);
  return {.widths = {16 * widening, 32 * widening, 64 * widening}, .blocks = (depth - 4) / 6};
}

namespace detail {

/// f, behind relu(norm(x)), once for either kind of block.
inline auto preact_basic(std::int64_t in, std::int64_t width, std::int64_t stride, double dropout) {
  using namespace nn;
  return chain(named("conv1", plain_conv(in, width, 3, stride)),
               named("norm2", BatchNorm{.channels = width}), Relu{}, Dropout{.rate = dropout},
               named("conv2", plain_conv(width, width, 3)));
}
inline auto preact_bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride) {
  using namespace nn;
  return chain(named("conv1", plain_conv(in, width, 1)),
               named("norm2", BatchNorm{.channels = width}), Relu{},
               named("conv2", plain_conv(width, width, 3, stride)),
               named("norm3", BatchNorm{.channels = width}), Relu{},
               named("conv3", plain_conv(width, 4 * width, 1)));
}

/// One block. Where it keeps the shape it is one block of the model, the unit of recomputation.
template <Device D, class T, class Branch>
nn::ValueId preact_block(nn::Model<D, T>& m, const ResidualPlace& p, Branch branch, nn::ValueId x) {
  using namespace nn;
  const auto start = chain(named("norm", BatchNorm{.channels = p.in}), Relu{});
  if (p.keeps) return m.block(p.name, residual(named("start", start), named("branch", branch)), x);
  x = m.block(p.name + ".start", start, x);
  const ValueId f = m.block(p.name + ".branch", std::move(branch), x);
  const auto shortcut = chain(named("conv", p.shortcut));
  return m.add(p.name + ".sum", {f, m.block(p.name + ".shortcut", shortcut, x)});
}

}  // namespace detail

/// Images (samples, image, image, channels) to logits (samples, classes).
template <Device D, Scalar T>
nn::Model<D, T> preact_resnet(const PreactResnetConfig& c) {
  using namespace nn;
  using detail::plain_conv;
  KRAMA_EXPECTS(c.blocks > 0 && c.stem > 0, "preact_resnet: {} blocks a stage behind {} channels",
                c.blocks, c.stem);
  KRAMA_EXPECTS(!c.bottleneck || c.dropout == 0.0,
                "preact_resnet: bottlenecks have no dropout, found {}", c.dropout);
  Model<D, T> m;
  ValueId x = m.input("images", {c.image, c.image, c.channels});
  x = m.block("stem", chain(named("conv", plain_conv(c.channels, c.stem, 3))), x);
  const std::int64_t features = detail::residual_stages(
      c.stem, c.widths.size(), c.bottleneck ? 4 : 1, [&](std::size_t s) { return c.widths[s]; },
      [&](std::size_t) { return c.blocks; },
      [&](const detail::ResidualPlace& p) {
        x = c.bottleneck
                ? detail::preact_block(m, p, detail::preact_bottleneck(p.in, p.width, p.stride), x)
                : detail::preact_block(m, p,
                                       detail::preact_basic(p.in, p.width, p.stride, c.dropout), x);
      });
  const Linear head{.in_features = features, .out_features = c.classes};
  m.output(m.block("head",
                   chain(named("norm", BatchNorm{.channels = features}), Relu{}, GlobalAvgPool2d{},
                         named("linear", head)),
                   x));
  return m;
}

}  // namespace krama::models
