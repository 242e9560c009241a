// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/train/checkpoint.hpp>

#include <catch2/catch_all.hpp>
#include <limits>

#include "train/shared_folder.hpp"
#include "train/train_test.hpp"

using namespace train_test;
using Catch::Matchers::ContainsSubstring;
using krama::f16;

namespace {

krama::train::TrainerOptions scaled_options(const krama::MpiComm& world, std::int64_t steps,
                                            const krama::optim::LossScaling& scaling) {
  return {.global_batch = 12,
          .steps = steps,
          .seed = 9,
          .shares = {.fixed = std::vector<double>(static_cast<std::size_t>(world.size()), 1.0)},
          .executor = {.micro_batch = 5, .loss_scaling = scaling, .bucket_elements = 256}};
}

}  // namespace

TEST_CASE("loss scale: a run that goes on from a checkpoint has the scale that it had", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "scaled.safetensors";
  const auto data = points(31);
  // Too large at first, so that it falls, and then grows on both sides of the checkpoint.
  const krama::optim::LossScaling scaling{.initial = 0x1p20, .growth_interval = 3};
  Setup<f16, krama::MpiComm> whole(world, scaled_options(world, 23, scaling));
  std::vector<double> scales;
  std::int64_t skipped = 0;
  whole.trainer.fit(data, [&](const krama::train::StepReport& r) {
    scales.push_back(r.outcome.loss_scale);
    skipped += r.outcome.skipped ? 1 : 0;
    return true;
  });
  CHECK(scales.front() == 0x1p20);
  CHECK(skipped >= 4);
  CHECK(whole.trainer.executor().updates() == 23 - skipped);

  Setup<f16, krama::MpiComm> first(world, scaled_options(world, 14, scaling));
  first.trainer.fit(data);
  CHECK(first.trainer.executor().loss_scaler().scale() < 0x1p20);
  krama::train::save_checkpoint(first.exec, first.trainer, file);
  Setup<f16, krama::MpiComm> second(world, scaled_options(world, 23, scaling));
  krama::train::load_checkpoint(second.exec, second.trainer, file);
  CHECK(second.trainer.executor().loss_scaler().text() ==
        first.trainer.executor().loss_scaler().text());
  second.trainer.fit(data);
  CHECK(same_bits(whole.values(), second.values()));
  CHECK(second.trainer.executor().loss_scaler().text() ==
        whole.trainer.executor().loss_scaler().text());

  // Without scaling the file is as good as any.
  Setup<float, krama::MpiComm> plain(world, scaled_options(world, 15, {}));
  krama::train::load_checkpoint(plain.exec, plain.trainer, file);
  plain.trainer.fit(data);
  CHECK(plain.trainer.steps_done() == 15);
}

TEST_CASE("loss scale: f16 learns with it", "[train]") {
  auto world = krama::MpiComm::world();
  const auto data = points(64);
  Setup<f16, krama::MpiComm> s(world,
                               scaled_options(world, 120, krama::optim::LossScaling::dynamic()));
  s.trainer.fit(data);
  CHECK(s.trainer.evaluate(data) < 0.35);
}

TEST_CASE("loss scale: a bad sample ends training once the scale cannot be lowered", "[train]") {
  auto world = krama::MpiComm::world();
  const krama::train::LabelledRows bad({0.1F, 0.2F, std::numeric_limits<float>::quiet_NaN(), 0.3F},
                                       {0, 1}, 2, 2, "bad rows");
  Setup<f16, krama::MpiComm> s(world, scaled_options(world, 50, {.initial = 8, .smallest = 1}));
  const auto before = s.values();
  CHECK_THROWS_WITH(s.trainer.fit(bad),
                    ContainsSubstring("step 4") && ContainsSubstring("not finite"));
  CHECK(same_bits(before, s.values()));
}
