// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <cmath>

#include "program/problems.hpp"

using namespace program_test;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using krama::WireFormat;
using krama::optim::Sgd;
template <class T, class Optimizer>
using Executor = krama::Executor<D, T, krama::nn::CrossEntropy, Optimizer, krama::MpiComm>;

namespace {

const std::vector<WireFormat> rounded{WireFormat::bf16, WireFormat::f16, WireFormat::int8};

/// This rank's samples of a batch that is shared out equally; the last rank takes the rest.
std::pair<std::int64_t, std::int64_t> my_part(std::int64_t samples, int rank, int ranks) {
  const std::int64_t each = samples / ranks;
  return {rank * each, rank + 1 == ranks ? samples - rank * each : each};
}

bool all_zero(std::span<const float> v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return x == 0.0F; });
}

}  // namespace

TEMPLATE_TEST_CASE("wire: replicas hold the same bits after every step in any format", "[program]",
                   Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto model = TestType::template model<D, float>();
  const krama::exec_of<D> exec;
  const auto [first, mine] = my_part(data.samples, world.rank(), world.size());
  for (const auto format : rounded) {
    for (const bool overlap : {true, false}) {
      CAPTURE(krama::name_of(format), overlap);
      auto store = same_store<D, float>(model);
      Executor<float, krama::optim::AdamW> executor(exec, model, store, {}, {}, world,
                                                    {.micro_batch = 4,
                                                     .clip_norm = 1.0,
                                                     .bucket_elements = 700,
                                                     .wire = {format, true},
                                                     .overlap = overlap});
      double loss = 0;
      for (std::uint32_t step = 0; step < 6; ++step) {
        const auto o = executor.step(step, 1, 0.01, first, mine, feed(exec, data, first, mine, 4));
        CHECK(o.finite);
        if (step == 0) loss = o.loss();
        if (step == 5) CHECK(o.loss() < loss);
        krama::check_same_values(world, exec, store, step + 1);
      }
      CHECK(executor.wire().residual().empty() == (world.size() == 1));
      CHECK((world.size() == 1 || !all_zero(executor.wire().residual())));
    }
  }
}

TEMPLATE_TEST_CASE("wire: the gradient is that of the batch within the error of the format",
                   "[program]", Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto model = TestType::template model<D, float>();
  auto store = same_store<D, float>(model);
  std::vector<std::int64_t> counts;
  for (int r = 0; r < world.size(); ++r) {
    counts.push_back(my_part(data.samples, r, world.size()).second);
  }
  const auto exact = gradients<D, float>(model, store, world, data, counts, {.micro_batch = 4});
  for (const auto format : rounded) {
    const auto found =
        gradients<D, float>(model, store, world, data, counts,
                            {.micro_batch = 4, .bucket_elements = 700, .wire = {format, true}});
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < exact.values.size(); ++i) {
      error += std::pow(found.values[i] - exact.values[i], 2);
      norm += std::pow(exact.values[i], 2);
    }
    const double relative = std::sqrt(error / norm);
    CAPTURE(krama::name_of(format), relative);
    // Partial sums may be larger than the whole sum, and blocks hold larger elements than one's own.
    CHECK(relative < (format == WireFormat::f16 ? 0.002 : format == WireFormat::bf16 ? 0.01 : 0.1));
    CHECK((relative > 0) == (world.size() > 1));
  }
}

TEST_CASE("wire: buffers and one rank's sums travel as they are", "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Normed::data();
  const auto model = Normed::model<D, float>();
  const krama::exec_of<D> exec;
  const auto [first, mine] = my_part(data.samples, world.rank(), world.size());
  const auto buffers_after = [&](WireFormat format) {
    auto store = same_store<D, float>(model);
    Executor<float, Sgd> executor(exec, model, store, {}, {}, world,
                                  {.micro_batch = data.samples, .wire = {format, true}});
    executor.step(0, 1, 0.05, first, mine, feed(exec, data, first, mine, data.samples));
    const auto values = krama::download(exec, store.values());
    return std::vector<float>(values.begin() + store.buffers_begin(), values.end());
  };
  CHECK(buffers_after(WireFormat::int8) == buffers_after(WireFormat::f32));
}

namespace {

/// Minimises (x_i - target_i)^2 / 2 with steps of 1 / (s + 10), over gradients given by hand: the rank
/// after an element's owner has the element's gradient plus 900, the owner has -900. So what is sent is
/// large and what is to be learnt is the small difference. \return the largest distance left
double distance_left(krama::MpiComm& world, const krama::WireOptions& wire, int steps) {
  constexpr std::int64_t n = 1024;
  const auto target = [](std::int64_t i) { return 0.6F + 0.001F * static_cast<float>(i % 97); };
  const krama::exec_of<D> exec;
  krama::nn::Model<D, float> model;
  model.block("only", krama::nn::Linear{.in_features = 32, .out_features = n / 32, .bias = false},
              model.input("x", {32}));
  auto store = model.make_store(exec, 1);
  krama::fill(exec, store.values(), 0.0F);
  krama::OwnerUpdate<D, float, Sgd, krama::MpiComm> owner(
      exec, store, Sgd{}, world,
      krama::make_shard(store, 1 << 20, {}, {}, world.rank(), world.size()), 0.0, {}, wire);
  const auto& partition = owner.shard().partition(0);
  std::vector<float> x;
  for (int s = 0; s < steps; ++s) {
    x = krama::download(exec, store.values());
    std::vector<float> g(x.size(), 0.0F);
    for (int r = 0; r < world.size(); ++r) {
      for (std::int64_t i = partition.begin(r); i < partition.end(r); ++i) {
        const auto k = static_cast<std::size_t>(i);
        if (world.rank() == r) g[k] = -900.0F;
        if (world.rank() == (r + 1) % world.size()) g[k] += 900.0F + (x[k] - target(i));
      }
    }
    owner.begin_step(1, static_cast<std::uint32_t>(s), true);
    krama::upload(exec, store.grads(), std::span<const float>(g));
    owner.reduce(0, 0);
    owner.await_reduce(0);
    const double weight = world.rank() == 0 ? 1.0 : 0.0;
    CHECK(owner.agree({0.0, weight, 0, owner.squared_norm(), false}).empty());
    owner.update(0, 1.0 / (s + 10));
    owner.gather(0);
    owner.end_step();
  }
  krama::check_same_values(world, exec, store, steps);
  x = krama::download(exec, store.values());
  double worst = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto distance = std::abs(x[static_cast<std::size_t>(i)] - target(i));
    worst = std::max(worst, static_cast<double>(distance));
  }
  return worst;
}

}  // namespace

// Near 900 the steps of bf16 are 4 wide, those of f16 1/2 and those of int8 7.
TEST_CASE("wire: error feedback converges where plain rounding does not", "[program]") {
  auto world = krama::MpiComm::world();
  if (world.size() != 2 && world.size() != 3) return;
  const int steps = 150;
  const auto formats = world.size() == 2 ? rounded : std::vector{WireFormat::bf16};
  CHECK(distance_left(world, {WireFormat::f32, true}, steps) < 0.05);
  for (const auto format : formats) {
    const double plain = distance_left(world, {format, false}, steps);
    const double fed = distance_left(world, {format, true}, steps);
    CAPTURE(krama::name_of(format), plain, fed);
    CHECK(fed < 0.1);
    // Nothing below half a step is ever learnt; int8 learns on average, with the noise of its steps.
    CHECK(plain > (format == WireFormat::bf16 ? 0.6 : 0.2));
  }
}

TEST_CASE("wire: residuals are dropped where the step that made them changed nothing",
          "[program]") {
  auto world = krama::MpiComm::world();
  auto data = Mlp::data();
  const auto model = Mlp::model<D, float>();
  const krama::exec_of<D> exec;
  const krama::ExecutorOptions options{.micro_batch = 8, .wire = {WireFormat::bf16, true}};
  const auto steps = [&](bool with_bad_step) {
    auto store = same_store<D, float>(model);
    Executor<float, Sgd> executor(exec, model, store, {}, {}, world, options);
    if (with_bad_step) {
      auto bad = data;
      if (world.rank() == world.size() - 1) bad.x[0] = std::nan("");
      CHECK_FALSE(executor.step(7, 1, 0.1, 0, 8, feed(exec, bad, 0, 8, 8)).finite);
    }
    for (std::uint32_t s = 0; s < 2; ++s) {
      executor.step(s, 1, 0.1, 0, 8, feed(exec, data, 0, 8, 8));
      // Gradients that nobody learns from leave the residuals as they are.
      executor.gradients_only(1, 0, 8, feed(exec, data, 0, 8, 8));
    }
    CHECK((world.size() == 1 || !all_zero(executor.wire().residual())));
    return krama::download(exec, store.values());
  };
  CHECK(steps(true) == steps(false));
}

TEST_CASE("wire: residuals wait for a step of the same loss scale, and only for one that learns",
          "[program]") {
  const std::vector<krama::plan::Bucket> buckets{{0, 4}};
  krama::GradientWire wire({WireFormat::bf16, true}, 4, 0, 2);
  const auto owe = [&](double scale) {
    wire.begin_step(1, 1, scale, true);
    const auto e = wire.encoding(buckets[0]);
    const float before = e.residual[2];
    e.residual[2] = 0.5F;
    return before;
  };
  CHECK(owe(1) == 0.0F);
  wire.end_step(true);
  wire.begin_step(1, 1, 1, false);
  CHECK(wire.encoding(buckets[0]).residual.empty());
  CHECK(owe(1) == 0.5F);
  wire.end_step(true);
  CHECK(owe(2) == 0.0F);  // the loss is scaled otherwise
  wire.end_step(false);
  CHECK(owe(2) == 0.0F);  // nothing was updated
  CHECK(owe(2) == 0.0F);  // the step did not come to an end
  // Ranks draw unlike numbers, elements too.
  krama::GradientWire other({WireFormat::int8, true}, 4, 1, 2);
  other.begin_step(1, 1, 2, true);
  CHECK(other.encoding(buckets[0]).key.stream != wire.encoding(buckets[0]).key.stream);
  CHECK(krama::GradientWire({WireFormat::bf16, true}, 4, 0, 1).residual().empty());
}

TEST_CASE("wire: unlike wishes end the first step on every rank with the same error", "[program]") {
  auto world = krama::MpiComm::world();
  if (world.size() == 1) return;
  const auto data = Mlp::data();
  const auto model = Mlp::model<D, float>();
  auto store = same_store<D, float>(model);
  const krama::exec_of<D> exec;
  Executor<float, Sgd> executor(
      exec, model, store, {}, {}, world,
      {.micro_batch = 8, .wire = {world.rank() == 1 ? WireFormat::int8 : WireFormat::f32, true}});
  const auto before = krama::download(exec, store.values());
  CHECK_THROWS_WITH(executor.step(0, 1, 0.1, 0, 8, feed(exec, data, 0, 8, 8)),
                    ContainsSubstring("as int8") && ContainsSubstring("as f32"));
  CHECK(krama::download(exec, store.values()) == before);
}
