// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/self.hpp>
#include <krama/nn/losses/mean_squared_error.hpp>
#include <krama/optim/adam.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/plan/budget.hpp>
#include <krama/testing/check_optimizer.hpp>
#include <krama/testing/guarded/device.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>
#include <vector>

#include "program/problems.hpp"

using namespace krama;
using namespace program_test;
using Guarded = testing::GuardedDevice::device_type;
using Host = Kokkos::OpenMP::device_type;

namespace {

std::vector<float> numbers(std::int64_t n, std::uint32_t stream) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i) {
    v.push_back(static_cast<float>(2.0 * u(stream, static_cast<std::size_t>(i)) - 1.0));
  }
  return v;
}

template <class D, class T>
Tensor<T, 1, mem_of<D>> on_device(const std::vector<T>& v) {
  const exec_of<D> exec;
  Tensor<T, 1, mem_of<D>> t(exec, "test", {static_cast<std::int64_t>(v.size())});
  upload(exec, t.ref(), std::span<const T>(v));
  return t;
}

struct LossValues {
  std::vector<double> sums;
  std::vector<float> gradient;
};

template <class D, class Loss, class T>
LossValues run_loss(const Loss& loss, const std::vector<T>& targets) {
  using M = mem_of<D>;
  constexpr std::int64_t rows = 37, columns = 11;
  const exec_of<D> exec;
  const auto y = on_device<D>(numbers(rows * columns, 21));
  const auto t = on_device<D>(targets);
  const auto w = on_device<D>(numbers(rows, 22));
  const Tensor<float, 1, M> dy(exec, "dy", {rows * columns});
  const Tensor<double, 1, M> sums(exec, "sums", {2});
  const Tensor<double, 1, M> scratch(exec, "scratch", {loss.scratch_elements(rows)});
  fill(exec, sums.ref(), 0.5);
  loss.template operator()<D, float>(exec, TensorRef<const float, 2, M>(y.data(), {rows, columns}),
                                     t.cref(), w.cref(), sums.ref(), scratch.ref(),
                                     TensorRef<float, 2, M>(dy.data(), {rows, columns}));
  return {download(exec, sums.ref()), download(exec, dy.ref())};
}

struct Trained {
  std::vector<float> values, outputs;
  std::vector<StepOutcome> outcomes;
};

/// Three steps of a small GPT with micro-batches, recomputation and clipping, an evaluation and a
/// prediction.
template <class D>
Trained train(const plan::Offload& offload = {}) {
  const exec_of<D> exec;
  const auto data = Gpt::data();
  const auto model = models::gpt<D, float>(
      {.vocabulary = 17, .context = 12, .features = 16, .layers = 2, .heads = 2, .dropout = 0.1});
  auto store = same_store<D, float>(model);
  Executor<D, float, nn::CrossEntropy, optim::Sgd, SelfComm> executor(
      exec, model, store, {}, {.momentum = 0.9}, SelfComm("test"),
      {.micro_batch = 4,
       .clip_norm = 0.5,
       .bucket_elements = 1000,
       .recompute =
           offload.what.empty() ? std::vector<bool>{false, true, true, false} : std::vector<bool>{},
       .offload = offload});
  Trained t;
  for (std::uint32_t step = 0; step < 3; ++step) {
    t.outcomes.push_back(
        executor.step(step, 1, 0.1, 0, data.samples, feed(exec, data, 0, data.samples, 4)));
  }
  t.outcomes.push_back(executor.evaluate(1, 0, data.samples, feed(exec, data, 0, data.samples, 4)));
  t.values = download(exec, store.values());
  t.outputs =
      download(exec, executor.predict(4, feed(exec, data, 0, 4, 4)).template as<float, 1>());
  return t;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = d <= largest ? largest : d;  // NaN stays
  }
  return largest;
}

}  // namespace

TEST_CASE("guarded: losses give the host's bits", "[guarded]") {
  const testing::DelayedWork delayed;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < 37; ++i) {
    labels.push_back(i % 5 == 2 ? -100 : static_cast<std::int32_t>(11.0 * u(23, i)));
  }
  const auto there = run_loss<Guarded>(nn::CrossEntropy{}, labels);
  const auto here = run_loss<Host>(nn::CrossEntropy{}, labels);
  CHECK(there.sums == here.sums);
  CHECK(there.gradient == here.gradient);
  const auto squares_there = run_loss<Guarded>(nn::MeanSquaredError{}, numbers(37 * 11, 24));
  const auto squares_here = run_loss<Host>(nn::MeanSquaredError{}, numbers(37 * 11, 24));
  CHECK(squares_there.sums == squares_here.sums);
  CHECK(squares_there.gradient == squares_here.gradient);
}

TEST_CASE("guarded: optimizers keep the contract and give the host's bits", "[guarded]") {
  const testing::DelayedWork delayed;
  const auto check = [](const auto& optimizer) {
    CHECK(testing::check_optimizer<Guarded, float>(optimizer).text() == "");
    const auto run = [&]<class D>(D) {
      testing::detail::OptimizerRun<D, float> r(exec_of<D>{});
      for (std::int64_t step = 1; step <= 3; ++step) {
        r.gradients(step);
        r.update(optimizer, {0.01, 1.0 / 3.0, step}, 0, r.size);
      }
      return r.all();
    };
    CHECK(run(Guarded{}) == run(Host{}));
  };
  check(optim::AdamW{});
  check(optim::Adam{.weight_decay = 0.1});
  check(optim::Sgd{.momentum = 0.9, .nesterov = true, .l2 = 0.1});
}

TEST_CASE("guarded: a small GPT trains as on the host", "[guarded]") {
  const testing::DelayedWork delayed;
  const auto there = train<Guarded>();
  const auto here = train<Host>();
  for (std::size_t i = 0; i < here.outcomes.size(); ++i) {
    CHECK(there.outcomes[i].finite);
    CHECK(there.outcomes[i].weight == here.outcomes[i].weight);
    CHECK(there.outcomes[i].loss() == Catch::Approx(here.outcomes[i].loss()).epsilon(1e-5));
    CHECK(there.outcomes[i].grad_norm ==
          Catch::Approx(here.outcomes[i].grad_norm).epsilon(1e-4).margin(1e-9));
  }
  CHECK(here.outcomes[3].loss() < here.outcomes[0].loss());
  CHECK(largest_difference(there.values, here.values) < 1e-5);
  CHECK(largest_difference(there.outputs, here.outputs) < 1e-4);
}

TEST_CASE("guarded: swapping gives the bits of not swapping", "[guarded]") {
  const testing::DelayedWork delayed;
  using R = plan::Residency;
  auto costs = plan::byte_costs(
      step_sizes(models::gpt<Guarded, float>(
                     {.vocabulary = 17, .context = 12, .features = 16, .layers = 2, .heads = 2}),
                 4));
  costs.budget = costs.saved_bytes() * 2 / 3;
  const auto kept = train<Guarded>();
  for (const auto& what : {plan::Residencies{R::swap, R::swap, R::swap, R::swap},
                           plan::Residencies{R::keep, R::swap_input, R::swap, R::recompute}}) {
    const auto swapped = train<Guarded>(plan::Offload::of(costs, what));
    CHECK(kept.values == swapped.values);
    CHECK(kept.outputs == swapped.outputs);
  }
}
