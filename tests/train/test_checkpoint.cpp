// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/train/checkpoint.hpp>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "train/shared_folder.hpp"
#include "train/train_test.hpp"

using namespace train_test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

krama::train::TrainerOptions options(std::int64_t steps, std::vector<double> shares = {}) {
  return {.global_batch = 12,
          .steps = steps,
          .seed = 9,
          .shares = {.fixed = std::move(shares)},
          .executor = {.micro_batch = 5, .bucket_elements = 256}};
}

}  // namespace

TEST_CASE("checkpoint: going on equals never having stopped, bit for bit", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "three.safetensors";
  const auto data = points(31);
  for (const auto& shares : some_shares(world.size())) {
    CAPTURE(shares);
    Setup<float, krama::MpiComm> whole(world, options(7, shares));
    whole.trainer.fit(data);

    Setup<float, krama::MpiComm> first(world, options(3, shares));
    first.trainer.fit(data);
    krama::train::save_checkpoint(first.exec, first.trainer, file);
    CHECK(folder.files() == 1);  // no half-written file beside it

    Setup<float, krama::MpiComm> second(world, options(7, shares));
    krama::train::load_checkpoint(second.exec, second.trainer, file);
    CHECK(second.trainer.steps_done() == 3);
    CHECK(same_bits(first.values(), second.values()));
    second.trainer.fit(data);
    CHECK(second.trainer.steps_done() == 7);
    CHECK(same_bits(whole.values(), second.values()));
  }
}

TEST_CASE("checkpoint: sums go on in the form that they had", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "form.safetensors";
  const auto data = points(31);
  const std::vector<double> equal(static_cast<std::size_t>(world.size()), 1.0);
  auto ring = world.duplicate("ring");
  ring.set_form(krama::Form::ring());
  Setup<float, krama::MpiComm> whole(ring, options(7, equal));
  whole.trainer.fit(data);
  Setup<float, krama::MpiComm> first(ring, options(3, equal));
  first.trainer.fit(data);
  krama::train::save_checkpoint(first.exec, first.trainer, file);

  auto other = world.duplicate("other");
  CHECK(other.form() == krama::Form::star());
  Setup<float, krama::MpiComm> second(other, options(7, equal));
  krama::train::load_checkpoint(second.exec, second.trainer, file);
  CHECK(other.form() == krama::Form::ring());
  second.trainer.fit(data);
  CHECK(same_bits(whole.values(), second.values()));
}

TEST_CASE("checkpoint: running statistics go on too", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "norm.safetensors";
  const auto data = points(31);
  const auto net = [] {
    using namespace krama::nn;
    Model<D, float> m;
    auto x = m.input("x", {2});
    x = m.block("hidden",
                chain(named("linear", Linear{.in_features = 2, .out_features = 24}),
                      named("norm", BatchNorm{.channels = 24}), Relu{}),
                x);
    m.block("head", Linear{.in_features = 24, .out_features = 2}, x);
    return m;
  };
  for (const auto& shares : some_shares(world.size())) {
    CAPTURE(shares);
    const auto of = [&](std::int64_t steps) {
      auto o = options(steps, shares);
      o.executor.micro_batch = 12;  // one micro-batch on every rank
      return o;
    };
    Setup<float, krama::MpiComm> whole(world, of(7), net());
    whole.trainer.fit(data);
    Setup<float, krama::MpiComm> first(world, of(3), net());
    first.trainer.fit(data);
    krama::train::save_checkpoint(first.exec, first.trainer, file);
    Setup<float, krama::MpiComm> second(world, of(7), net());
    const auto fresh = second.values();
    krama::train::load_checkpoint(second.exec, second.trainer, file);
    CHECK(same_bits(first.values(), second.values()));
    const auto& mean = second.store.segments()[6];
    CHECK(mean.name == "hidden.norm.running_mean");
    const auto at = static_cast<std::size_t>(mean.offset);
    CHECK(second.values()[at] != fresh[at]);
    second.trainer.fit(data);
    CHECK(same_bits(whole.values(), second.values()));
    CHECK(whole.trainer.evaluate(data) == second.trainer.evaluate(data));
  }
  world.barrier("written");
  const krama::io::SafetensorsReader written(file);
  std::size_t statistics = 0;
  for (const auto& t : written.tensors()) {
    if (t.name.find("running_") == std::string::npos) continue;
    CHECK_FALSE(t.name.starts_with("optimizer."));
    ++statistics;
  }
  CHECK(statistics == 2);
}

TEST_CASE("checkpoint: one rank goes on from what several wrote", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "several.safetensors";
  const auto data = points(31);
  Setup<double, krama::MpiComm> many(world, options(6));
  Setup<double, krama::MpiComm> start(world, options(2));
  many.trainer.fit(data);
  start.trainer.fit(data);
  krama::train::save_checkpoint(start.exec, start.trainer, file);
  world.barrier("written");

  Setup<double, krama::SelfComm> alone(krama::SelfComm("alone"), options(6));
  krama::train::load_checkpoint(alone.exec, alone.trainer, file);
  alone.trainer.fit(data);
  const auto wanted = many.values();
  const auto found = alone.values();
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(found[i] - wanted[i]));
  }
  CHECK(largest < 1e-9);
}

TEST_CASE("checkpoint: a bad file is the same error on every rank and changes nothing", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto good = folder.path() / "good.safetensors";
  const auto cut = folder.path() / "cut.safetensors";
  Setup<float, krama::MpiComm> s(world, options(2));
  s.trainer.fit(points(20));
  krama::train::save_checkpoint(s.exec, s.trainer, good);
  if (world.rank() == 0) {
    fs::copy_file(good, cut);
    fs::resize_file(cut, fs::file_size(cut) - 8);
  }
  world.barrier("cut");

  Setup<float, krama::MpiComm> fresh(world, options(2));
  const auto before = fresh.values();
  const auto refused = [&](const fs::path& path, const std::string& word) {
    CAPTURE(path);
    CHECK_THROWS_WITH(krama::train::load_checkpoint(fresh.exec, fresh.trainer, path),
                      ContainsSubstring(word));
    CHECK(same_bits(before, fresh.values()));
    CHECK(fresh.trainer.steps_done() == 0);
  };
  refused(cut, "cut.safetensors");
  refused(folder.path() / "missing.safetensors", "missing.safetensors");

  auto other_seed = options(2);
  other_seed.seed = 10;
  Setup<float, krama::MpiComm> seed(world, other_seed);
  CHECK_THROWS_WITH(krama::train::load_checkpoint(seed.exec, seed.trainer, good),
                    ContainsSubstring("krama.seed was 9"));
  auto other_batch = options(2);
  other_batch.global_batch = 13;
  Setup<float, krama::MpiComm> batch(world, other_batch);
  CHECK_THROWS_WITH(krama::train::load_checkpoint(batch.exec, batch.trainer, good),
                    ContainsSubstring("krama.global_batch was 12"));
}

TEST_CASE("checkpoint: a folder that cannot be written leaves the old file and tells every rank",
          "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  Setup<float, krama::MpiComm> s(world, options(1));
  const auto nowhere = folder.path() / "missing folder" / "c.safetensors";
  CHECK_THROWS_WITH(krama::train::save_checkpoint(s.exec, s.trainer, nowhere),
                    ContainsSubstring("missing folder"));
  CHECK(folder.files() == 0);
}

TEST_CASE("checkpoint: written near and read far, and the other way round", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto data = points(31);
  const std::vector<double> equal(static_cast<std::size_t>(world.size()), 1.0);
  // Devices keep parameters in near memory, also beside hosts that do not.
  constexpr bool on_host = krama::SwapLink<D>::host_memory;
  const auto with = [&](std::int64_t steps, bool far) {
    auto o = options(steps, equal);
    if (far && on_host) o.executor.weights_budget = 1000;
    return o;
  };
  using Job = Setup<float, krama::MpiComm>;
  const auto where = [](bool far) {
    return far && on_host ? std::optional(krama::TierOptions{}) : std::nullopt;
  };
  Job whole(world, with(7, false));
  whole.trainer.fit(data);
  for (const bool far : {false, true}) {
    CAPTURE(far);
    const auto file = folder.path() / (far ? "far.safetensors" : "near.safetensors");
    Job first(world, with(3, far), krama::models::mlp<D, float>({{2, 24, 2}}), where(far));
    first.trainer.fit(data);
    krama::train::save_checkpoint(first.exec, first.trainer, file);
    Job second(world, with(7, !far), krama::models::mlp<D, float>({{2, 24, 2}}), where(!far));
    krama::train::load_checkpoint(second.exec, second.trainer, file);
    CHECK(same_bits(first.values(), second.values()));
    second.trainer.fit(data);
    CHECK(same_bits(whole.values(), second.values()));
    CHECK(second.trainer.evaluate(data) == whole.trainer.evaluate(data));
  }
}
