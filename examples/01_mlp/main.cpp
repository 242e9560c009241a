// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

// A classifier in 25 lines: the README shows this file.

#include <krama/models/mlp.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/runtime/run.hpp>
#include <krama/train/sources.hpp>
#include <krama/train/trainer.hpp>

// README begins
// Points in the plane: are they inside the circle? Any number of ranks, of any kind.
krama::train::LabelledRows make_points(int n) {
  std::vector<float> xy;
  std::vector<std::int32_t> inside;
  for (int i = 0; i < n; ++i) {
    const float x = 2 * krama::uniform({1, 0, 0}, static_cast<std::uint64_t>(2 * i)) - 1;
    const float y = 2 * krama::uniform({1, 0, 0}, static_cast<std::uint64_t>(2 * i + 1)) - 1;
    xy.insert(xy.end(), {x, y});
    inside.push_back(x * x + y * y < 0.5F ? 1 : 0);
  }
  return {xy, inside, 2, 2};
}

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](krama::World& world) {
    using D = krama::DefaultDevice;
    const krama::exec_of<D> exec;
    const auto points = make_points(4096);
    const auto model = krama::models::mlp<D, float>({{2, 32, 2}});
    auto parameters = model.make_store(exec, 1);
    krama::train::Trainer trainer(
        exec, model, parameters, krama::nn::CrossEntropy{}, krama::optim::AdamW{},
        krama::optim::Schedule::constant(0.01), world,
        {.global_batch = 64, .steps = 400, .executor = {.micro_batch = 64}});
    trainer.fit(points);
    const double loss = trainer.evaluate(points);
    if (world.rank() == 0) std::printf("loss %.3f\n", loss);
    return loss < 0.2 ? 0 : 1;
  });
}
// README ends
