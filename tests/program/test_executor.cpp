// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/self.hpp>
#include <krama/nn/layers/silu.hpp>
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>

#include "program/problems.hpp"

using namespace program_test;
using D = TestDevice;

namespace {

template <class T, class Optimizer = krama::optim::AdamW>
std::vector<krama::accum_t<T>> train(const krama::nn::Model<D, T>& model, const Data& data,
                                     krama::ExecutorOptions options, int steps, double lr = 0.01) {
  const krama::exec_of<D> exec;
  auto store = same_store<D, T>(model);
  krama::Executor<D, T, krama::nn::CrossEntropy, Optimizer, krama::SelfComm> executor(
      exec, model, store, {}, {}, krama::SelfComm("test"), options);
  for (int s = 0; s < steps; ++s) {
    executor.step(static_cast<std::uint32_t>(s), 1, lr, 0, data.samples,
                  feed(exec, data, 0, data.samples, options.micro_batch));
  }
  return krama::download(exec, store.values());
}

}  // namespace

TEMPLATE_TEST_CASE("executor: O03 recomputing blocks gives the same bits as keeping them",
                   "[program]", float, double) {
  const auto data = Gpt::data();
  const auto model = krama::models::gpt<D, TestType>(
      {.vocabulary = 17, .context = 12, .features = 16, .layers = 2, .heads = 2, .dropout = 0.2});
  const auto kept = train<TestType>(model, data, {.micro_batch = 4}, 3);
  for (const std::vector<bool>& chosen : {std::vector<bool>{false, true, false, false},
                                          {true, true, true, true},
                                          {false, true, true, false}}) {
    CHECK(
        same_bits(kept, train<TestType>(model, data, {.micro_batch = 4, .recompute = chosen}, 3)));
  }
}

TEST_CASE("executor: recomputing needs less memory", "[program]") {
  const krama::exec_of<D> exec;
  const auto model = Gpt::model<D, float>();
  auto store = same_store<D, float>(model);
  using Exec =
      krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::Sgd, krama::SelfComm>;
  const Exec keep(exec, model, store, {}, {}, krama::SelfComm("a"), {.micro_batch = 8});
  const Exec less(exec, model, store, {}, {}, krama::SelfComm("b"),
                  {.micro_batch = 8, .recompute = {true, true, true, true}});
  CHECK(less.memory().peak < keep.memory().peak);
}

TEST_CASE("executor: a budget that is too small is refused before step 1", "[program]") {
  const krama::exec_of<D> exec;
  const auto model = Gpt::model<D, float>();
  auto store = same_store<D, float>(model);
  using Exec =
      krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::Sgd, krama::SelfComm>;
  CHECK_THROWS_AS(Exec(exec, model, store, {}, {}, krama::SelfComm("a"),
                       {.micro_batch = 8, .memory_budget = 1000}),
                  krama::OutOfMemory);
}

TEST_CASE("executor: K04 dropout does not depend on the split into micro-batches", "[program]") {
  const auto data = Gpt::data();
  const auto model = krama::models::gpt<D, double>(
      {.vocabulary = 17, .context = 12, .features = 16, .layers = 1, .heads = 2, .dropout = 0.3});
  const auto whole = train<double>(model, data, {.micro_batch = 11}, 1, 1.0);
  const auto parts = train<double>(model, data, {.micro_batch = 2}, 1, 1.0);
  double largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    largest = std::max(largest, std::abs(whole[i] - parts[i]));
  }
  // AdamW's first step is +-lr: another mask would change signs, so differences near 1.
  CHECK(largest < 1e-3);
}

TEST_CASE("executor: N20 clipping scales the gradient to the wanted norm", "[program]") {
  const auto data = Mlp::data();
  const auto model = Mlp::model<D, double>();
  const krama::exec_of<D> exec;
  auto store = same_store<D, double>(model);
  const auto before = krama::download(exec, store.values());
  krama::Executor<D, double, krama::nn::CrossEntropy, krama::optim::Sgd, krama::SelfComm> executor(
      exec, model, store, {}, {}, krama::SelfComm("test"), {.micro_batch = 32, .clip_norm = 0.01});
  const auto o = executor.step(0, 1, 1.0, 0, data.samples, feed(exec, data, 0, data.samples, 32));
  REQUIRE(o.grad_norm > 0.01);
  const auto after = krama::download(exec, store.values());
  double moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    moved += (after[i] - before[i]) * (after[i] - before[i]);
  }
  CHECK(std::sqrt(moved) == Catch::Approx(0.01).epsilon(1e-6));
}

TEST_CASE("executor: a value that several blocks read gets the sum of their gradients",
          "[program]") {
  // y = f(x) + g(x) as a join of two blocks, against one block that holds the residual form.
  const krama::exec_of<D> exec;
  using namespace krama::nn;
  Model<D, double> joined;
  auto x = joined.input("x", {20});
  auto h =
      joined.block("first", chain(named("l", Linear{.in_features = 20, .out_features = 6})), x);
  auto f =
      joined.block("branch", chain(named("l", Linear{.in_features = 6, .out_features = 6})), h);
  joined.output(joined.add("sum", {h, f}));
  Model<D, double> inside;
  x = inside.input("x", {20});
  h = inside.block("first", chain(named("l", Linear{.in_features = 20, .out_features = 6})), x);
  inside.block("branch", residual(named("l", Linear{.in_features = 6, .out_features = 6})), h);
  const auto data = Mlp::data();
  auto s1 = same_store<D, double>(joined);
  auto s2 = same_store<D, double>(inside);
  krama::SelfComm self("test");
  const auto a = gradients<D, double>(joined, s1, self, data, {data.samples}, {.micro_batch = 29});
  const auto b = gradients<D, double>(inside, s2, self, data, {data.samples}, {.micro_batch = 29});
  for (const auto& s : s1.segments()) {
    CHECK(norm(a.values, s) > 0.0);
    CHECK(distance(a.values, b.values, s) <= 1e-13 * norm(b.values, s));
  }
}

TEST_CASE("executor: joins of values that are read elsewhere too, and of a value with itself",
          "[program]") {
  const krama::exec_of<D> exec;
  using namespace krama::nn;
  Model<D, double> m;
  const auto x = m.input("x", {20});
  const auto a = m.block("a", Linear{.in_features = 20, .out_features = 6}, x);
  const auto b = m.block("b", chain(Linear{.in_features = 6, .out_features = 6}, Silu{}), a);
  const auto both = m.concat("both", {a, b});
  const auto twice = m.add("twice", {b, b});
  const auto all = m.concat("all", {both, twice, a, both});
  m.block("head", Linear{.in_features = 36, .out_features = 6}, all);
  const auto data = Mlp::data();
  auto store = same_store<D, double>(m);
  krama::SelfComm self("test");
  const auto loss = [&] {
    return gradients<D, double>(m, store, self, data, {data.samples}, {.micro_batch = 29});
  };
  const auto g = loss();
  auto values = krama::download(exec, store.values());
  for (const auto& s : store.segments()) {
    for (const std::int64_t i : {s.offset, s.offset + s.size - 1}) {
      const auto k = static_cast<std::size_t>(i);
      const double start = values[k];
      double difference = 0;
      for (const double sign : {1.0, -1.0}) {
        values[k] = start + sign * 1e-5;
        krama::upload(exec, store.values(), std::span<const double>(values));
        difference += sign * loss().outcome.loss();
      }
      values[k] = start;
      CAPTURE(s.name, i);
      CHECK(std::abs(difference / 2e-5 - g.values[k]) < 1e-8);
    }
  }
}
