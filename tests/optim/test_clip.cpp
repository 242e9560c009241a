// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/optim/clip.hpp>

#include <krama/core/random.hpp>
#include <krama/kernels/reduce.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/tensor/copy.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace krama;
using Catch::Approx;

TEST_CASE("clip: the factor brings the norm to the bound (N20)", "[optim]") {
  CHECK(optim::clip_factor(5.0, 1.0) * 5.0 == Approx(1.0));
  CHECK(optim::clip_factor(0.5, 1.0) == 1.0);
  CHECK(optim::clip_factor(0.0, 1.0) == 1.0);
  CHECK(optim::clip_factor(1.0, 1.0) == 1.0);
  CHECK(optim::clip_factor(std::numeric_limits<double>::infinity(), 1.0) == 0.0);
  CHECK(optim::clip_factor(std::nan(""), 1.0) == 0.0);
  CHECK_THROWS_WITH(optim::clip_factor(1.0, 0.0),
                    Catch::Matchers::ContainsSubstring("above 0, found 0"));
}

TEST_CASE("clip: an update moves by exactly the bound (N20)", "[optim]") {
  using D = TestDevice;
  using M = mem_of<D>;
  const exec_of<D> exec;
  const std::int64_t n = 3 * chunk_size;
  Tensor<double, 1, M> w(exec, "w", {n}), g(exec, "g", {n}), v(exec, "v", {n});
  Tensor<std::uint8_t, 1, M> attributes(exec, "a", {3});
  std::vector<double> grads;
  for (std::int64_t i = 0; i < n; ++i) {
    grads.push_back(10.0 * static_cast<double>(uniform({3, 1, 0}, static_cast<std::uint64_t>(i))));
  }
  upload(exec, g.ref(), std::span<const double>(grads));
  fill(exec, w.ref(), 0.0);
  fill(exec, v.ref(), 0.0);
  fill(exec, attributes.ref(), std::uint8_t{0});
  const double weight = 8.0;  // the gradient is a sum over samples of this weight
  const double norm = std::sqrt(kernels::squared_norm(exec, g.cref())) / weight;
  const double max_norm = 0.25;
  REQUIRE(norm > max_norm);
  const optim::UpdateScalars s{1.0, optim::clip_factor(norm, max_norm) / weight, 1};
  optim::Sgd{}.update<D, double>(exec, {w.ref(), g.cref(), {v.ref(), {}}, attributes.cref()}, s);
  CHECK(std::sqrt(kernels::squared_norm(exec, w.cref())) == Approx(max_norm).epsilon(1e-12));
}
