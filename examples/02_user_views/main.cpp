// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

// Training on Views that an application already has, inside its own MPI and Kokkos.

#include <krama/models/mlp.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/runtime/run.hpp>
#include <krama/tensor/wrap.hpp>
#include <krama/train/sources.hpp>
#include <krama/train/trainer.hpp>

#include <cmath>

namespace {

// The application's data: samples and what to learn about them.
using Samples = Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace>;
using Labels = Kokkos::View<int*, Kokkos::HostSpace>;

void simulate(const Samples& samples, const Labels& labels) {
  for (std::size_t i = 0; i < samples.extent(0); ++i) {
    for (std::size_t j = 0; j < samples.extent(1); ++j) {
      samples(i, j) = std::sin(static_cast<double>(7 * i + 3 * j) * 0.37);
    }
    labels(i) = samples(i, 0) + samples(i, 1) > 0 ? 1 : 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](krama::World& world) {
    const Samples samples("application samples", 1000, 4);
    const Labels labels("application labels", 1000);
    simulate(samples, labels);

    // As a tensor, without a copy: the same memory, Krama's extents.
    const auto tensor = krama::wrap(samples);
    if (tensor.data() != samples.data() || tensor.extent(1) != 4) return 1;

    using D = krama::DefaultDevice;
    const krama::exec_of<D> exec;
    const auto model = krama::models::mlp<D, double>({{4, 16, 2}});
    auto parameters = model.make_store(exec, 1);
    krama::train::Trainer trainer(
        exec, model, parameters, krama::nn::CrossEntropy{}, krama::optim::Sgd{.momentum = 0.9},
        krama::optim::Schedule::constant(0.05), world,
        {.global_batch = 50, .steps = 300, .executor = {.micro_batch = 50}});
    const krama::train::ViewSource source(samples, labels, 2);
    trainer.fit(source);
    const double loss = trainer.evaluate(source);
    if (world.rank() == 0) std::printf("loss %.3f\n", loss);
    return loss < 0.2 ? 0 : 1;
  });
}
