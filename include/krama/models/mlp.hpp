// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/nn/chain.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>

namespace krama::models {

/// Fully connected layers with ReLU between them: {784, 256, 10} is one hidden layer of 256.
struct MlpConfig {
  std::vector<std::int64_t> features = {784, 256, 10};
};

template <Device D, Scalar T>
nn::Model<D, T> mlp(const MlpConfig& c) {
  KRAMA_EXPECTS(c.features.size() >= 2, "mlp: at least two feature counts are needed, found {}",
                c.features.size());
  nn::Model<D, T> m;
  nn::ValueId x = m.input("x", {c.features.front()});
  for (std::size_t i = 1; i < c.features.size(); ++i) {
    const nn::Linear linear{.in_features = c.features[i - 1],
                            .out_features = c.features[i],
                            .init = Init::kaiming_uniform(c.features[i - 1])};
    const std::string name = "layers." + std::to_string(i - 1);
    x = i + 1 < c.features.size()
            ? m.block(name, nn::chain(nn::named("linear", linear), nn::Relu{}), x)
            : m.block(name, nn::named("linear", linear), x);
  }
  return m;
}

KRAMA_INSTANCE(nn::Model<DefaultDevice, float> mlp(const MlpConfig&));

}  // namespace krama::models
