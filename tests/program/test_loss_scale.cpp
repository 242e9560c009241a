// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>

#include <catch2/catch_all.hpp>

#include "program/problems.hpp"

using namespace program_test;
using Catch::Matchers::ContainsSubstring;
using krama::f16;
using krama::MpiComm;
using krama::optim::LossScaling;
using D = TestDevice;

namespace {

/// A run of an Mlp on all ranks, each with its part of the data.
template <class T>
class Run {
 public:
  using Exec = krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::AdamW, MpiComm>;
  using A = krama::accum_t<T>;

  Run(MpiComm comm, krama::ExecutorOptions options)
      : data(Mlp::data()),
        model(Mlp::model<D, T>()),
        store(same_store<D, T>(model)),
        executor(exec, model, store, {}, {}, comm, options),
        first_(data.samples * comm.rank() / comm.size()),
        mine_(data.samples * (comm.rank() + 1) / comm.size() - first_) {}

  krama::StepOutcome step() {
    return executor.step(number_++, 1, 0.01, first_, mine_,
                         feed(exec, data, first_, mine_, executor.options().micro_batch));
  }
  [[nodiscard]] std::vector<A> everything() const {
    auto all = krama::download(exec, store.values());
    for (int s = 0; s < 2; ++s) {
      const auto state = krama::download(exec, executor.state(s));
      all.insert(all.end(), state.begin(), state.end());
    }
    return all;
  }

  krama::exec_of<D> exec;
  Data data;
  krama::nn::Model<D, T> model;
  krama::ParamStore<T, krama::mem_of<D>> store;
  Exec executor;

 private:
  std::int64_t first_;
  std::int64_t mine_;
  std::uint32_t number_ = 0;
};

krama::ExecutorOptions options(const LossScaling& scaling, double clip_norm = 0.0) {
  return {
      .micro_batch = 4, .clip_norm = clip_norm, .loss_scaling = scaling, .bucket_elements = 256};
}

}  // namespace

TEMPLATE_TEST_CASE("loss scale: where nothing overflows, steps are those without it, bit for bit",
                   "[program]", float, double) {
  auto world = MpiComm::world();
  for (const double clip : {0.0, 0.05}) {
    Run<TestType> plain(world.duplicate("plain"), options({}, clip));
    Run<TestType> scaled(world.duplicate("scaled"),
                         options({.initial = 4096, .growth_interval = 2}, clip));
    for (int s = 0; s < 5; ++s) {
      const auto a = plain.step();
      const auto b = scaled.step();
      CHECK(a.loss_sum == b.loss_sum);
      CHECK(a.weight == b.weight);
      CHECK(a.grad_norm == b.grad_norm);
      CHECK(b.loss_scale == (s < 2 ? 4096.0 : s < 4 ? 8192.0 : 16384.0));
    }
    CHECK(same_bits(plain.everything(), scaled.everything()));
  }
}

TEST_CASE("loss scale: gradients of f16 that fall below its numbers are kept", "[program]") {
  auto world = MpiComm::world();
  auto data = Mlp::data();
  for (auto& w : data.weights) w *= 0x1p-20;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()),
                                   data.samples / world.size());
  counts[0] += data.samples % world.size();
  const auto error_of = [&](const LossScaling& scaling) {
    const auto small = Mlp::model<D, f16>();
    const auto exact = Mlp::model<D, double>();
    auto small_store = same_store<D, f16>(small);
    auto exact_store = same_store<D, double>(exact);
    const auto found = gradients<D, f16>(small, small_store, world, data, counts, options(scaling));
    const auto wanted = gradients<D, double>(exact, exact_store, world, data, counts, options({}));
    double error = 0;
    for (const auto& s : small_store.segments()) {
      error = std::max(error, distance(found.values, wanted.values, s) / norm(wanted.values, s));
    }
    return error;
  };
  CHECK(error_of({}) > 0.1);
  CHECK(error_of({.initial = 0x1p20}) < 0.01);
}

TEST_CASE("loss scale: an overflow on one rank makes all ranks skip and lower the scale",
          "[program]") {
  auto world = MpiComm::world();
  Run<f16> run(world, options({.initial = 8, .growth_interval = 2}));
  const auto weights = run.data.weights;
  CHECK(run.step().updates());
  const auto before = run.everything();
  const auto updates = run.executor.updates();
  // The weights that make the gradients of the last rank's logits larger than f16's numbers.
  if (world.rank() == world.size() - 1) {
    for (auto& w : run.data.weights) w *= 1e5;
  }
  const auto skipped = run.step();
  CHECK_FALSE(skipped.finite);
  CHECK(skipped.skipped);
  CHECK(skipped.loss_scale == 8.0);
  CHECK(run.executor.loss_scaler().scale() == 4.0);
  CHECK(run.executor.updates() == updates);
  CHECK(same_bits(before, run.everything()));
  // Training goes on, and after two good steps the scale is tried again.
  run.data.weights = weights;
  for (int s = 0; s < 2; ++s) {
    const auto good = run.step();
    CHECK(good.updates());
    CHECK_FALSE(good.skipped);
    CHECK(good.loss_scale == 4.0);
  }
  CHECK(run.executor.loss_scaler().scale() == 8.0);
  CHECK_FALSE(same_bits(before, run.everything()));
}

TEST_CASE("loss scale: one that is far too large is lowered until training goes on", "[program]") {
  auto world = MpiComm::world();
  Run<f16> run(world, options({.initial = 0x1p24}));
  int skipped = 0;
  auto o = run.step();
  while (o.skipped && skipped < 30) {
    ++skipped;
    o = run.step();
  }
  CHECK(skipped >= 8);  // f16 ends below 2^16
  CHECK(o.updates());
  CHECK(o.loss_scale == std::ldexp(0x1p24, -skipped));
  const double first = o.loss();
  for (int s = 0; s < 30; ++s) o = run.step();
  CHECK(o.loss() < 0.8 * first);
}

TEST_CASE("loss scale: a gradient that no scale helps is not skipped for ever", "[program]") {
  auto world = MpiComm::world();
  Run<f16> run(world, options({.initial = 4, .smallest = 1}));
  run.data.x[0] = std::nan("");  // the first rank's
  CHECK(run.step().skipped);
  CHECK(run.step().skipped);
  const auto last = run.step();
  CHECK_FALSE(last.finite);
  CHECK_FALSE(last.skipped);
}

TEST_CASE("loss scale: evaluation is not scaled", "[program]") {
  auto world = MpiComm::world();
  Run<float> plain(world.duplicate("plain"), options({}));
  Run<float> scaled(world.duplicate("scaled"), options({.initial = 1024}));
  const auto loss = [](Run<float>& r) {
    return r.executor.evaluate(1, 0, r.data.samples, feed(r.exec, r.data, 0, r.data.samples, 4));
  };
  const auto a = loss(plain);
  const auto b = loss(scaled);
  CHECK(a.loss_sum == b.loss_sum);
  CHECK(a.weight == b.weight);
}

TEST_CASE("loss scale: ranks that scale differently are refused on every rank", "[program]") {
  auto world = MpiComm::world();
  if (world.size() == 1) return;
  Run<float> run(world, options({.initial = world.rank() == 1 ? 512.0 : 1024.0}));
  const auto before = run.everything();
  CHECK_THROWS_WITH(run.step(), ContainsSubstring("rank 0 scales the loss by 1024, rank 1 by 512"));
  CHECK(same_bits(before, run.everything()));
}
