// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/embedding.hpp>
#include <krama/testing/check_layer.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cstring>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

namespace {

using krama::nn::Embedding;
using krama::test::run_layer;
using krama::test::values;

std::vector<std::int32_t> some_ids(std::int64_t n, std::int32_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (const auto v : values<double>(n, 9, 0.0, static_cast<double>(vocabulary))) {
    ids.push_back(static_cast<std::int32_t>(v));
  }
  return ids;
}

}  // namespace

TEMPLATE_TEST_CASE("embedding: contract of a layer", "", double, float) {
  krama::testing::CheckOptions options;
  options.classes = 7;
  for (const std::int64_t positions : {0, 9}) {
    for (const auto& shape : {krama::Shape{1, 1}, krama::Shape{3, 5}, krama::Shape{2, 9}}) {
      for (const std::int64_t features : {1, 5, 70}) {
        const Embedding layer{.vocabulary = 7, .features = features, .positions = positions};
        const auto r = krama::testing::check_layer<TestDevice, TestType>(layer, shape, options);
        INFO(krama::to_string(shape) << " features " << features << "\n" << r.text());
        CHECK(r.ok());
      }
    }
  }
}

TEMPLATE_TEST_CASE("embedding: rows of the table, and their sums in the order of the batch", "",
                   double, float, krama::bf16, krama::f16) {
  using T = TestType;
  using A = krama::accum_t<T>;
  const std::int64_t vocabulary = 5, features = 67, batch = 3, time = 11;
  const auto ids = some_ids(batch * time, 5);
  const auto table = values<T>(vocabulary * features, 1);
  const auto positions = values<T>(time * features, 2);
  const auto dy = values<T>(batch * time * features, 3);
  std::vector<A> params;
  for (const auto v : table) params.push_back(static_cast<A>(v));
  for (const auto v : positions) params.push_back(static_cast<A>(v));
  const Embedding layer{vocabulary, features, time};
  const auto got = run_layer<T>(layer, {batch, time}, ids, params, dy);

  std::vector<A> d_table(static_cast<std::size_t>(vocabulary * features));
  std::vector<A> d_positions(static_cast<std::size_t>(time * features));
  bool same = true;
  for (std::size_t r = 0; r < ids.size(); ++r) {
    for (std::size_t c = 0; c < 67; ++c) {
      const auto id = static_cast<std::size_t>(ids[r]) * 67 + c;
      const auto place = r % 11 * 67 + c;
      const auto want = static_cast<A>(static_cast<T>(params[id] + params[5 * 67 + place]));
      same = same && got.y[r * 67 + c] == want;
      d_table[id] += static_cast<A>(dy[r * 67 + c]);
      d_positions[place] += static_cast<A>(dy[r * 67 + c]);
    }
  }
  CHECK(same);
  d_table.insert(d_table.end(), d_positions.begin(), d_positions.end());
  CHECK(d_table == got.grads);
}

TEST_CASE("embedding: the linked form of the gradient gives the bits of the strips") {
  using D = TestDevice;
  using M = krama::mem_of<D>;
  const krama::exec_of<D> exec;
  const std::int64_t vocabulary = 6, features = 33, batch = 4, time = 50;
  const auto ids = some_ids(batch * time, 6);
  const auto dy = values<float>(batch * time * features, 3);
  krama::Tensor<std::int32_t, 1, M> t_ids(exec, "ids", {batch * time});
  krama::Tensor<std::int32_t, 1, M> links(exec, "links", {2 * batch * time});
  krama::Tensor<float, 1, M> t_dy(exec, "dy", {batch * time * features});
  krama::upload(exec, t_ids.ref(), std::span<const std::int32_t>(ids));
  krama::upload(exec, t_dy.ref(), std::span<const float>(dy));
  std::vector<float> results[2];
  for (const bool strips : {false, true}) {
    krama::Tensor<float, 1, M> grad(exec, "grad", {vocabulary * features});
    krama::fill(exec, grad.ref(), 0.125F);
    krama::kernels::embed_grad<krama::exec_of<D>, float, M>(
        exec, {t_ids.data(), {batch, time}}, {t_dy.data(), {batch, time, features}},
        {grad.data(), {vocabulary, features}}, {nullptr, {time, features}}, links.data(), strips);
    results[strips ? 1 : 0] = krama::download(exec, grad.ref());
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("embedding: misfits are refused with the sizes") {
  CHECK_THROWS_WITH((Embedding{10, 4, 8}.out({2, 9})),
                    "embedding: sequences of 9 are longer than the 8 learned positions");
  CHECK_THROWS_AS((Embedding{10, 4}.out({2, 9, 4})), krama::Error);
  krama::ParamSpec spec;
  CHECK_THROWS_AS((Embedding{0, 4}.params(spec)), krama::Error);
}
