// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/comm/self.hpp>
#include <krama/io/safetensors.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/program/executor.hpp>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <string>
#include <type_traits>

#include "support/test_space.hpp"

/// Whole models against PyTorch's numbers (tests/golden/make_golden.py).
namespace golden_test {

/// Largest difference relative to the largest of the wanted numbers; NaN is infinitely wrong.
template <class A>
double relative_error(const std::vector<A>& found, std::int64_t offset,
                      const std::vector<double>& wanted, double scale = 1.0) {
  double largest = 1e-30;
  double error = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    const double f = static_cast<double>(found.at(static_cast<std::size_t>(offset) + i));
    error = std::max(error, std::isnan(f) ? 1e30 : std::abs(f * scale - wanted[i]));
  }
  return error / largest;
}

/// Gives every parameter the golden file's first values ("w."); all of them are used.
template <class E, class Store>
void load_weights(const E& exec, const krama::io::SafetensorsReader& golden, Store& store) {
  using A = typename Store::accum;
  std::vector<A> values(static_cast<std::size_t>(store.size()), A{0});
  std::int64_t known = 0;
  for (const auto& s : store.segments()) {
    const auto w = golden.read<double>("w." + s.name);
    CAPTURE(s.name);
    REQUIRE(static_cast<std::int64_t>(w.size()) == s.size);
    for (std::size_t i = 0; i < w.size(); ++i) {
      values[static_cast<std::size_t>(s.offset) + i] = static_cast<A>(w[i]);
    }
    ++known;
  }
  std::int64_t given = 0;
  for (const auto& t : golden.tensors()) given += t.name.starts_with("w.") ? 1 : 0;
  CHECK(known == given);
  krama::upload(exec, store.values(), std::span<const A>(values));
  store.refresh_working(exec);
}

/// `Net` has a `file`, says whether it reads `images` (else tokens) and makes a `model<T>()`.
template <class Net, class T>
void compare(double tolerance) {
  using D = TestDevice;
  using A = krama::accum_t<T>;
  const krama::io::SafetensorsReader golden(std::string(KRAMA_GOLDEN_DIR) + "/" + Net::file);
  const krama::exec_of<D> exec;
  const auto model = Net::template model<T>();
  auto store = model.make_store(exec, 1);
  load_weights(exec, golden, store);

  using X = std::conditional_t<Net::images, T, std::int32_t>;
  std::vector<X> inputs;
  if constexpr (Net::images) {
    for (const double v : golden.read<double>("images")) inputs.push_back(static_cast<X>(v));
  } else {
    inputs = golden.read<std::int32_t>("tokens");
  }
  const auto targets = golden.read<std::int32_t>("targets");
  const auto feed = [&](int, const auto& to) {
    krama::upload(exec, to.input.template as<X, 1>(), std::span<const X>(inputs));
    krama::upload(exec, to.targets, std::span<const std::int32_t>(targets));
    krama::fill(exec, to.weights, A{1});
  };
  krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::AdamW, krama::SelfComm> executor(
      exec, model, store, {}, {.weight_decay = 0.1}, krama::SelfComm("golden"), {.micro_batch = 3});

  const auto logits = krama::download(exec, executor.predict(3, feed).template as<T, 1>());
  CHECK(relative_error(logits, 0, golden.read<double>("logits")) < tolerance);

  const auto o = executor.gradients_only(1, 0, 3, feed);
  CHECK(o.loss() == Catch::Approx(golden.read<double>("loss")[0]).epsilon(tolerance));
  const auto counted =
      std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  CHECK(o.weight == static_cast<double>(counted));
  const auto grads = krama::download(exec, store.grads());
  for (const auto& s : store.segments()) {
    if (s.buffer) continue;
    CAPTURE(s.name);
    CHECK(relative_error(grads, s.offset, golden.read<double>("g." + s.name), 1.0 / o.weight) <
          tolerance);
  }

  for (std::uint32_t step = 0; step < 5; ++step) executor.step(step, 1, 0.01, 0, 3, feed);
  const auto after = krama::download(exec, store.values());
  for (const auto& s : store.segments()) {
    CAPTURE(s.name);
    // Adam divides a gradient by its own size. Where it is nothing but rounding (keys' biases, which
    // cancel in the softmax), so is the step: those elements say nothing and are left out.
    auto wanted = golden.read<double>("after." + s.name);
    auto found = std::vector<double>(after.begin() + s.offset, after.begin() + s.offset + s.size);
    const auto g = s.buffer ? std::vector<double>{} : golden.read<double>("g." + s.name);
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (g[i] == 0.0 || std::abs(g[i]) > 1e-3 * tolerance) continue;
      found[i] = wanted[i] = 0.0;
      ++left_out;
    }
    CHECK(left_out <= g.size() / 2);
    CHECK(relative_error(found, 0, wanted) < 50 * tolerance);
  }
}

}  // namespace golden_test
