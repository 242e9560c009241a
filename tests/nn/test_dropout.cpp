// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/dropout.hpp>

#include <krama/testing/check_layer.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <vector>

using namespace krama;
using Catch::Approx;

namespace {

using M = mem_of<TestDevice>;

/// Dropout of ones for samples [first, first + samples) of a global batch.
template <class T>
std::vector<double> of_ones(const nn::Dropout& layer, std::int64_t first, std::int64_t samples,
                            std::int64_t elements, bool training = true, std::uint32_t step = 0,
                            bool backward = false) {
  using A = accum_t<T>;
  const exec_of<TestDevice> exec;
  const Shape in{samples, elements};
  testing::LayerHarness<TestDevice, T, nn::Dropout> h(exec, layer, in, false, 77);
  h.batch().first_sample = first;
  h.batch().step = step;
  Tensor<T, 1, M> x(exec, "x", {in.size()}), y(exec, "y", {in.size()});
  fill(exec, x.ref(), static_cast<T>(A{1}));
  fill(exec, y.ref(), static_cast<T>(A{7}));
  const AnyRef<M> ax{x.data(), dtype_of<T>, in}, ay{y.data(), dtype_of<T>, in};
  if (backward) {
    h.backward(ax, ax, ax, ay, training);
  } else {
    h.forward(ax, ay, training);
  }
  std::vector<double> out;
  for (const T v : download(exec, y.ref())) out.push_back(static_cast<double>(static_cast<A>(v)));
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("dropout: gradients and contract, recomputation included (O03)", "[nn]", double,
                   float) {
  for (const double rate : {0.0, 0.1, 0.5}) {
    for (const auto& in : {Shape{1, 1}, Shape{3, 5}, Shape{2, 7, 13}, Shape{130, 37}}) {
      const auto report = testing::check_layer<TestDevice, TestType>(nn::Dropout{rate}, in);
      INFO("rate " << rate << ", input " << to_string(in));
      CHECK(report.text() == "");
    }
  }
}

TEMPLATE_TEST_CASE("dropout: the mask is the number of the logical element (K04)", "[nn]", double,
                   float, bf16, f16) {
  const double rate = 0.3;
  for (const std::int64_t elements : {1, 7, 1000, 3001}) {
    for (const std::int64_t first : {0, 1, 5}) {
      const auto y = of_ones<TestType>({rate}, first, 3, elements, true, 4);
      // The harness binds the layer without a name: the stream is the hash of "".
      std::uint64_t hash = 0xcbf29ce484222325U;
      hash ^= hash >> 32;
      const RandomKey key{77, static_cast<std::uint32_t>(hash), 4};
      const auto scale = static_cast<double>(static_cast<accum_t<TestType>>(
          static_cast<TestType>(static_cast<accum_t<TestType>>(1.0 / (1.0 - rate)))));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const auto logical = static_cast<std::uint64_t>(first * elements) + i;
        const bool kept = static_cast<double>(uniform(key, logical)) >= rate;
        if (y[i] != (kept ? scale : 0.0)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("dropout: any split of the batch gives the same mask (K04)", "[nn]") {
  const std::int64_t elements = 1003;
  const auto whole = of_ones<float>({0.5}, 0, 5, elements);
  for (std::int64_t cut = 1; cut < 5; ++cut) {
    auto parts = of_ones<float>({0.5}, 0, cut, elements);
    const auto rest = of_ones<float>({0.5}, cut, 5 - cut, elements);
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == whole);
  }
}

TEST_CASE("dropout: backward has forward's mask, another step another one (O03)", "[nn]") {
  CHECK(of_ones<float>({0.5}, 0, 2, 500, true, 3, true) ==
        of_ones<float>({0.5}, 0, 2, 500, true, 3));
  CHECK(of_ones<float>({0.5}, 0, 2, 500, true, 4) != of_ones<float>({0.5}, 0, 2, 500, true, 3));
}

TEST_CASE("dropout: keeps the mean", "[nn]") {
  const auto y = of_ones<double>({0.25}, 0, 10, 20000);
  double sum = 0;
  for (const double v : y) sum += v;
  CHECK(sum / static_cast<double>(y.size()) == Approx(1.0).margin(0.005));
}

TEST_CASE("dropout: identity in evaluation and at rate 0", "[nn]") {
  for (const bool backward : {false, true}) {
    CHECK(of_ones<float>({0.5}, 0, 2, 100, false, 0, backward) == std::vector<double>(200, 1.0));
    CHECK(of_ones<float>({0.0}, 0, 2, 100, true, 0, backward) == std::vector<double>(200, 1.0));
  }
}

TEST_CASE("dropout: a rate outside [0, 1) is refused", "[nn]") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(nn::Dropout{1.0}.out({1, 2}), ContainsSubstring("in [0, 1), found 1"));
  CHECK_THROWS_WITH(nn::Dropout{-0.1}.out({1, 2}), ContainsSubstring("found -0.1"));
}
