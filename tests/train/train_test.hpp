// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <krama/models/mlp.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/train/sources.hpp>
#include <krama/train/trainer.hpp>

#include <optional>
#include <vector>

#include "support/same_bits.hpp"
#include "support/test_space.hpp"

/// A small classifier and its trainer, the same on any communicator.
namespace train_test {

using krama::test::same_bits;
using D = TestDevice;

inline krama::train::LabelledRows points(std::int64_t samples) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const float a = 2 * krama::uniform({5, 0, 0}, 2 * at) - 1;
    const float b = 2 * krama::uniform({5, 0, 0}, 2 * at + 1) - 1;
    x.insert(x.end(), {a, b});
    y.push_back(a * b > 0 ? 1 : 0);
  }
  return {x, y, 2, 2};
}

template <class T, class Comm>
class Setup {
 public:
  using Trainer = krama::train::Trainer<D, T, krama::nn::CrossEntropy, krama::optim::AdamW, Comm>;

  using Model = krama::nn::Model<D, T>;

  Setup(Comm comm, krama::train::TrainerOptions options,
        Model net = krama::models::mlp<D, T>({{2, 24, 2}}),
        const std::optional<krama::TierOptions>& far = {})
      : model(std::move(net)),
        store(model.make_store(exec, 1, far)),
        trainer(exec, model, store, {}, {}, krama::optim::Schedule::constant(0.02), comm,
                quiet(std::move(options))) {}
  [[nodiscard]] auto values() const { return krama::download(exec, store.values()); }

  /// Nothing printed unless a test wants to see it.
  static krama::train::TrainerOptions quiet(krama::train::TrainerOptions options) {
    if (!options.on_shares) options.on_shares = [](const krama::plan::ShareChange&) {};
    return options;
  }

  krama::exec_of<D> exec;
  Model model;
  krama::ParamStore<T, krama::mem_of<D>> store;
  Trainer trainer;
};

/// Shares for `ranks` ranks: equal, skewed, and the first without a sample.
inline std::vector<std::vector<double>> some_shares(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::vector<double>> all{std::vector<double>(n, 1.0)};
  std::vector<double> skewed(n, 1.0);
  skewed.back() = 5.0;
  all.push_back(skewed);
  if (ranks > 1) {
    skewed.front() = 0.0;
    all.push_back(skewed);
  }
  return all;
}

}  // namespace train_test
