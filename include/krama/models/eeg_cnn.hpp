// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <vector>

#include <krama/nn/chain.hpp>
#include <krama/nn/layers/conv1d.hpp>
#include <krama/nn/layers/flatten.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/max_pool1d.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/model.hpp>

namespace krama::models {

/// A convolution over time without padding, a rectifier and a pool that halves the window.
struct EegStage {
  std::int64_t channels = 0;
  std::int64_t kernel = 0;
};

/// A one-dimensional convolutional network for windows of EEG (Acharya, Oh, Hagiwara, Tan and Adeli
/// 2018, doi:10.1016/j.compbiomed.2017.09.017, table of the 13 layers): five convolutions, each with a
/// pool, and three layers of neurons, for 23.6 s of one electrode at 173.61 Hz that are normal,
/// preictal or a seizure. ReLU stands for the paper's rectifiers. As it stands 96,190 parameters.
struct EegCnnConfig {
  std::int64_t samples = 4097;  ///< in a window
  std::int64_t channels = 1;    ///< electrodes
  std::vector<EegStage> stages = {{4, 6}, {4, 5}, {10, 4}, {10, 4}, {15, 4}};
  std::vector<std::int64_t> hidden = {50, 20};
  std::int64_t classes = 3;
};

/// Windows (windows, samples, channels) to logits (windows, classes). The first hidden layer's inputs
/// are ordered (time, channel): weights from elsewhere that are ordered (channel, time) must be
/// permuted.
template <Device D, Scalar T>
nn::Model<D, T> eeg_cnn(const EegCnnConfig& c) {
  using namespace nn;
  Model<D, T> m;
  ValueId x = m.input("windows", {c.samples, c.channels});
  std::int64_t length = c.samples;
  std::int64_t in = c.channels;
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const auto& stage = c.stages[s];
    KRAMA_EXPECTS(length - stage.kernel + 1 >= 2,
                  "eeg_cnn: windows of {} samples are too short for {} stages: the {} that come to "
                  "stage {} leave nothing to halve behind a kernel of {}",
                  c.samples, c.stages.size(), length, s, stage.kernel);
    const Conv1d conv{.in_channels = in,
                      .out_channels = stage.channels,
                      .kernel = stage.kernel,
                      .init = Init::kaiming_uniform(stage.kernel * in)};
    x = m.block("stages." + std::to_string(s), chain(named("conv", conv), Relu{}, MaxPool1d{}), x);
    length = (length - stage.kernel + 1) / 2;
    in = stage.channels;
  }
  x = m.block("flatten", Flatten{}, x);
  in *= length;
  const auto linear = [](std::int64_t from, std::int64_t to) {
    return Linear{.in_features = from, .out_features = to, .init = Init::kaiming_uniform(from)};
  };
  for (std::size_t h = 0; h < c.hidden.size(); ++h) {
    x = m.block("hidden." + std::to_string(h),
                chain(named("linear", linear(in, c.hidden[h])), Relu{}), x);
    in = c.hidden[h];
  }
  m.output(m.block("head", chain(named("linear", linear(in, c.classes))), x));
  return m;
}

}  // namespace krama::models
