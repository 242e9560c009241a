// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

// A training loop of one's own on Krama's parts: model, executor, communicator.

#include <krama/config.hpp>
#include <krama/models/mlp.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/program/executor.hpp>
#include <krama/program/fingerprint.hpp>
#include <krama/runtime/run.hpp>
#include <krama/train/data.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](krama::World& world) {
    using D = krama::DefaultDevice;
    const krama::exec_of<D> exec;
    const auto model = krama::models::mlp<D, float>({{3, 24, 2}});
    auto parameters = model.make_store(exec, 1);
    krama::check_same_model(world, parameters);

    constexpr std::int64_t batch = 60;
    krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::World> executor(
        exec, model, parameters, {}, {}, world, {.micro_batch = 16, .clip_norm = 1.0});

    // Rank r takes its part of every global batch; here the first rank takes twice as much.
    std::vector<double> shares(static_cast<std::size_t>(world.size()), 1.0);
    shares[0] = 2.0;
    const auto counts = krama::train::split_batch(batch, shares);
    std::int64_t first = 0;
    for (int r = 0; r < world.rank(); ++r) first += counts[static_cast<std::size_t>(r)];
    const std::int64_t mine = counts[static_cast<std::size_t>(world.rank())];

    krama::StepOutcome outcome;
    for (std::uint32_t step = 0; step < 300; ++step) {
      outcome = executor.step(step, 1, 0.01, first, mine, [&](int micro, const auto& to) {
        // Samples are made on the spot: is x0 > x1 * x2 ?
        const std::int64_t n = to.targets.size();
        std::vector<float> x;
        std::vector<std::int32_t> y;
        for (std::int64_t i = 0; i < n; ++i) {
          const auto id = static_cast<std::uint64_t>(step * batch + first + 16 * micro + i);
          for (std::uint64_t j = 0; j < 3; ++j) {
            x.push_back(2 * krama::uniform({9, 0, 0}, 3 * id + j) - 1);
          }
          const float* s = x.data() + x.size() - 3;
          y.push_back(s[0] > s[1] * s[2] ? 1 : 0);
        }
        const std::vector<float> weights(static_cast<std::size_t>(n), 1.0F);
        krama::upload(exec, to.input.template as<float, 1>(), std::span<const float>(x));
        krama::upload(exec, to.targets, std::span<const std::int32_t>(y));
        krama::upload(exec, to.weights, std::span<const float>(weights));
      });
      if (step % 100 == 99) krama::check_same_values(world, exec, parameters, step);
    }
    if (world.rank() == 0) std::printf("loss %.3f\n", outcome.loss());
    return outcome.loss() < 0.3 ? 0 : 1;
  });
}
