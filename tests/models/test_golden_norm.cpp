// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Normalisation, joins, upsampling and losses of images against PyTorch's numbers
// (tests/golden/make_norm_golden.py).

#include <krama/comm/self.hpp>
#include <krama/io/safetensors.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/group_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/layers/silu.hpp>
#include <krama/nn/layers/upsample.hpp>
#include <krama/nn/losses/binary_cross_entropy.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/program/executor.hpp>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <string>

#include "models/golden.hpp"
#include "support/test_space.hpp"

namespace {

using D = TestDevice;

template <class T>
krama::nn::Model<D, T> network() {
  using namespace krama::nn;
  const auto mix = [](std::int64_t in, std::int64_t out, bool bias = false) {
    return named("linear", Linear{.in_features = in, .out_features = out, .bias = bias});
  };
  Model<D, T> m;
  const auto x = m.input("x", {5, 7, 3});
  const auto skip =
      m.block("enter", chain(mix(3, 6), named("norm", BatchNorm{.channels = 6}), Relu{}), x);
  const auto up = m.block("up", Upsample{.factor = 2, .mode = Interpolation::bilinear}, skip);
  const auto near = m.block("near", Upsample{.factor = 3}, skip);
  const auto both = m.concat("both", {near, up}, Fit::pad);
  const auto joined = m.block(
      "join", chain(mix(12, 8), named("norm", GroupNorm{.groups = 2, .channels = 8}), Silu{}),
      both);
  m.block("leave", chain(named("norm", BatchNorm{.channels = 8}), mix(8, 4, true)), joined);
  return m;
}

}  // namespace

TEMPLATE_TEST_CASE("golden: normalisation and joins of images, training and evaluation", "[models]",
                   double, float) {
  using T = TestType;
  const double tolerance = std::is_same_v<T, double> ? 1e-9 : 1e-4;
  const krama::io::SafetensorsReader golden(std::string(KRAMA_GOLDEN_DIR) + "/norm.safetensors");
  const krama::exec_of<D> exec;
  const auto model = network<T>();
  auto store = model.make_store(exec, 1);
  golden_test::load_weights(exec, golden, store);
  const auto input = golden.read<double>("x");
  const std::vector<T> x(input.begin(), input.end());
  const auto targets = golden.read<std::int32_t>("targets");
  const auto feed = [&](int, const auto& to) {
    krama::upload(exec, to.input.template as<T, 1>(), std::span<const T>(x));
    krama::upload(exec, to.targets, std::span<const std::int32_t>(targets));
    krama::fill(exec, to.weights, T{1});
  };
  krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::Sgd, krama::SelfComm> executor(
      exec, model, store, {.label_smoothing = 0.1}, {}, krama::SelfComm("golden"),
      {.micro_batch = 3});

  const auto o = executor.gradients_only(1, 0, 3, feed);
  CHECK(o.loss() == Catch::Approx(golden.read<double>("loss")[0]).epsilon(tolerance));
  const auto grads = krama::download(exec, store.grads());
  for (const auto& s : store.segments()) {
    if (s.buffer) continue;
    CAPTURE(s.name);
    CHECK(golden_test::relative_error(grads, s.offset, golden.read<double>("g." + s.name),
                                      1.0 / o.weight) < tolerance);
  }
  for (std::uint32_t step = 0; step < 5; ++step) executor.step(step, 1, 0.5, 0, 3, feed);
  const auto after = krama::download(exec, store.values());
  for (const auto& s : store.segments()) {
    CAPTURE(s.name);
    CHECK(golden_test::relative_error(after, s.offset, golden.read<double>("after." + s.name)) <
          10 * tolerance);
  }
  const auto logits = krama::download(exec, executor.predict(3, feed).template as<T, 1>());
  CHECK(golden_test::relative_error(logits, 0, golden.read<double>("evaluated")) < 10 * tolerance);
}

TEMPLATE_TEST_CASE("golden: binary cross-entropy with logits", "[models]", double, float) {
  using T = TestType;
  using M = krama::mem_of<D>;
  const double tolerance = std::is_same_v<T, double> ? 1e-9 : 1e-4;
  const krama::io::SafetensorsReader golden(std::string(KRAMA_GOLDEN_DIR) + "/norm.safetensors");
  const krama::exec_of<D> exec;
  const auto tensor = [&](const std::vector<double>& v) {
    krama::Tensor<T, 1, M> t(exec, "t", {24});
    const std::vector<T> cast(v.begin(), v.end());
    krama::upload(exec, t.ref(), std::span<const T>(cast));
    return t;
  };
  const auto x = tensor(golden.read<double>("bce.x"));
  const auto t = tensor(golden.read<double>("bce.t"));
  const auto dx = tensor(std::vector<double>(24, 0.0));
  const krama::nn::BinaryCrossEntropy loss;
  const krama::Tensor<double, 1, M> sums(exec, "sums", {2});
  const krama::Tensor<double, 1, M> scratch(exec, "scratch", {loss.scratch_elements(6)});
  krama::fill(exec, sums.ref(), 0.0);
  loss.operator()<D, T>(exec, {x.data(), {6, 4}}, {t.data(), {24}}, {nullptr, {6}}, sums.ref(),
                        scratch.ref(), {dx.data(), {6, 4}});
  const auto got = krama::download(exec, sums.ref());
  CHECK(got[0] / got[1] == Catch::Approx(golden.read<double>("bce.loss")[0]).epsilon(tolerance));
  CHECK(golden_test::relative_error(krama::download(exec, dx.ref()), 0,
                                    golden.read<double>("bce.g"), 1.0 / 6) < tolerance);
}
