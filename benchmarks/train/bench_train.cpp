// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// One whole training, on all ranks of the job; rank 0 prints one JSON line. train.py runs it.
//
//   bench_train cnn FOLDER SEED SHARES   LeNet on the idx files of FOLDER ("t10k" or "train"), every
//                                        tenth image held out: error of the held-out images, in percent
//   bench_train resnet|unet              one batch of random images, by heart: its last loss

#include <krama/models/lenet.hpp>
#include <krama/models/preact_resnet.hpp>
#include <krama/models/unet.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/runtime/run.hpp>
#include <krama/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>

#include "train/shifted_images.hpp"

namespace {

using D = krama::DefaultDevice;
using krama::World;
using krama::bench::ShiftedImages;
using krama::nn::CrossEntropy;
using krama::optim::AdamW;
using krama::optim::Schedule;
namespace train = krama::train;

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Percent of the images whose likeliest class is another than their label. Every rank computes it.
template <class Executor>
double error_of(const krama::exec_of<D>& exec, Executor& executor, const ShiftedImages& images,
                std::int64_t at_once) {
  train::Feeder<D, float, CrossEntropy, ShiftedImages> feeder(exec, images);
  std::int64_t wrong = 0;
  for (std::int64_t first = 0; first < images.images(); first += at_once) {
    std::vector<std::int64_t> ids(
        static_cast<std::size_t>(std::min(at_once, images.images() - first)));
    std::iota(ids.begin(), ids.end(), first);
    const auto n = static_cast<std::int64_t>(ids.size());
    const auto logits =
        krama::download(exec, executor.predict(n, feeder.feed(ids, n)).template as<float, 1>());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto row = logits.begin() + 10 * i;
      const auto best = std::max_element(row, row + 10) - row;
      wrong += best == images.label(first + i) ? 0 : 1;
    }
  }
  return 100.0 * static_cast<double>(wrong) / static_cast<double>(images.images());
}

/// LeNet with twice the maps. 14 times through all images, each time moved in other ways.
void cnn(World& world, const std::string& folder, std::uint64_t seed, const std::string& shares) {
  const Stopwatch watch;
  const krama::exec_of<D> exec;
  const bool whole = std::filesystem::exists(folder + "/train-images-idx3-ubyte");
  const auto all = krama::io::read_mnist(folder, whole ? "train" : "t10k");
  const ShiftedImages learnt(all, false, 2);
  const ShiftedImages held_out(all, true, 0);
  const auto model = krama::models::lenet<D, float>({.c1 = 12, .c3 = 32});
  auto store = model.make_store(exec, seed);
  constexpr std::int64_t batch = 64;
  const std::int64_t steps = 14 * 9000 / batch;
  train::Trainer trainer(exec, model, store, CrossEntropy{.label_smoothing = 0.05},
                         AdamW{.weight_decay = 0.02}, Schedule::cosine(3e-3, 100, steps), world,
                         {.global_batch = batch,
                          .steps = steps,
                          .seed = seed,
                          .shares = train::parse_shares(shares, world.size()),
                          .executor = {.micro_batch = batch}});
  trainer.fit(learnt);
  const double error = error_of(exec, trainer.executor(), held_out, batch);
  if (world.rank() == 0) {
    fmt::print(
        "{{\"what\":\"cnn\",\"seed\":{},\"ranks\":{},\"error\":{:.3f},\"seconds\":{:.1f}}}\n", seed,
        world.size(), error, watch.seconds());
  }
}

/// A batch that is always the same one.
struct OneBatch {
  using input_type = float;
  using target_type = std::int32_t;
  std::int64_t samples = 0;
  krama::Shape shape;
  std::int64_t rows = 1;  ///< of targets, in a sample
  std::vector<float> inputs = {};
  std::vector<std::int32_t> labels = {};

  [[nodiscard]] std::int64_t size() const { return samples; }
  [[nodiscard]] krama::Shape input_shape() const { return shape; }
  [[nodiscard]] std::int64_t targets_per_sample() const { return rows; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return rows; }
  void fetch(std::span<const std::int64_t> ids, std::span<float> x, std::span<std::int32_t> y,
             std::span<float> weights) const {
    const auto take = [&ids](const auto& from, auto to, std::int64_t each) {
      for (const auto id : ids) {
        const auto first = from.begin() + id * each;
        to = std::copy(first, first + each, to);
      }
    };
    take(inputs, x.begin(), shape.size());
    take(labels, y.begin(), rows);
    std::fill(weights.begin(), weights.end(), 1.0F);
  }
};

float number(std::uint32_t stream, std::int64_t i) {
  return 2.0F * krama::uniform({7, stream, 0}, static_cast<std::uint64_t>(i)) - 1.0F;
}

OneBatch noise(std::int64_t samples, const krama::Shape& shape) {
  OneBatch b{.samples = samples, .shape = shape};
  for (std::int64_t i = 0; i < samples * shape.size(); ++i) b.inputs.push_back(number(1, i));
  return b;
}

void by_heart(World& world, const std::string& name, const krama::nn::Model<D, float>& model,
              const OneBatch& batch, std::int64_t steps, double lr) {
  const Stopwatch watch;
  const krama::exec_of<D> exec;
  auto store = model.make_store(exec, 1);
  train::Trainer trainer(
      exec, model, store, CrossEntropy{}, AdamW{.weight_decay = 0.0},
      Schedule::cosine(lr, steps / 10, steps), world,
      {.global_batch = batch.samples, .steps = steps, .executor = {.micro_batch = batch.samples}});
  double first = 0;
  double last = 0;
  trainer.fit(batch, [&](const train::StepReport& r) {
    if (r.step == 1) first = r.outcome.loss();
    last = r.outcome.loss();
    return true;
  });
  if (world.rank() == 0) {
    fmt::print("{{\"what\":\"{}\",\"first_loss\":{:.4f},\"loss\":{:.6f},\"seconds\":{:.1f}}}\n",
               name, first, last, watch.seconds());
  }
}

/// The CIFAR ResNet of 20 layers; random images with random labels, which nothing but memory can tell.
void resnet(World& world) {
  auto batch = noise(16, {32, 32, 3});
  for (std::int64_t i = 0; i < batch.samples; ++i) {
    batch.labels.push_back(static_cast<std::int32_t>((number(2, i) + 1.0F) * 5.0F));
  }
  by_heart(world, "resnet", krama::models::preact_resnet<D, float>({.blocks = 3}), batch, 200,
           3e-3);
}

/// Two noisy images, each with a disk to be found.
void unet(World& world) {
  constexpr std::int64_t side = 48;
  auto batch = noise(2, {side, side, 1});
  batch.rows = side * side;
  for (std::int64_t i = 0; i < batch.samples * side * side; ++i) {
    const std::int64_t image = i / (side * side), r = i / side % side - 20, c = i % side - 28;
    const bool inside = r * r + c * c < 100 + 80 * image;
    batch.labels.push_back(inside ? 1 : 0);
    batch.inputs[static_cast<std::size_t>(i)] += inside ? 0.5F : 0.0F;
  }
  by_heart(world, "unet",
           krama::models::unet<D, float>(
               {.height = side, .width = side, .levels = {16, 32, 64}, .padded = true}),
           batch, 250, 2e-3);
}

}  // namespace

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](World& world, int count, char** words) {
    const std::string what = count > 1 ? words[1] : "";
    if (what == "cnn" && count == 5) {
      cnn(world, words[2], std::stoull(words[3]), words[4]);
    } else if (what == "resnet") {
      resnet(world);
    } else if (what == "unet") {
      unet(world);
    } else {
      throw krama::Error("bench_train: wanted cnn FOLDER SEED SHARES, resnet or unet");
    }
    return 0;
  });
}
