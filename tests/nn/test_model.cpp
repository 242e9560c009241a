// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/model.hpp>

#include <krama/nn/layers/dropout.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/layers/silu.hpp>
#include <krama/nn/layers/swiglu.hpp>
#include <krama/tensor/copy.hpp>

#include "nn/scale_layer.hpp"
#include "support/test_space.hpp"

#include <array>
#include <catch2/catch_all.hpp>
#include <string>
#include <vector>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::Saves;

namespace {

using M = mem_of<TestDevice>;
using E = exec_of<TestDevice>;
using Model = nn::Model<TestDevice, float>;
using Layer = test::Scale<Saves::input>;

std::vector<std::string> names(const Model& m) {
  std::vector<std::string> out;
  for (const auto& p : m.params()) out.push_back(p.name);
  return out;
}

/// Turns the batch away: what a model must refuse.
struct Flatten {
  static constexpr std::string_view type_name = "flatten";
  static constexpr Saves saves = Saves::none;
  [[nodiscard]] Shape out(const Shape& in) const { return {in.size() * 2}; }
  template <Device D, class T>
  void forward(const nn::Context<D, T>&, Ref<const T, 1, D>, Ref<T, 1, D>) const {}
  template <Device D, class T>
  void backward(const nn::Context<D, T>&, const nn::SavedOf<Flatten, D, T>&, Ref<const T, 1, D>,
                Ref<T, 1, D>) const {}
};

}  // namespace

TEST_CASE("model: values, readers and shapes", "[nn]") {
  Model m;
  const auto x = m.input("x", {6});
  const auto a = m.block("a", Layer{6}, x);
  const auto b = m.block("", nn::SwiGlu{}, a);
  const auto c = m.block("c", nn::SwiGlu{}, a);
  const auto d = m.add("d", {b, c});
  CHECK(m.block_count() == 4);
  CHECK(m.block_name(1) == "1");
  CHECK(m.value(a).readers == std::vector<int>{1, 2});
  CHECK(m.value(a).producer == 0);
  CHECK(m.value(x).producer == -1);
  CHECK(m.shape(d, 5) == Shape{5, 3});
  CHECK(m.output_value().index == d.index);
  m.output(b);
  CHECK(m.output_value().index == b.index);
  CHECK(m.reads(3).size() == 2);
  CHECK(m.writes(3).index == d.index);
}

TEST_CASE("model: gradients are wanted behind parameters that train only", "[nn]") {
  Model m;
  const auto x = m.input("x", {4});
  const auto a = m.block("a", nn::Silu{}, x);
  const auto b = m.block("b", Layer{.features = 4, .frozen = true}, a);
  const auto c = m.block("c", Layer{4}, b);
  const auto d = m.block("d", nn::Silu{}, c);
  CHECK_FALSE(m.value(x).differentiable);
  CHECK_FALSE(m.value(a).differentiable);
  CHECK_FALSE(m.value(b).differentiable);
  CHECK(m.value(c).differentiable);
  CHECK(m.value(d).differentiable);
  // One differentiable input is enough, wherever it stands.
  CHECK(m.value(m.add("e", {c, a})).differentiable);
  CHECK(m.value(m.add("f", {a, c})).differentiable);
  CHECK_FALSE(m.value(m.add("g", {a, b})).differentiable);
}

TEST_CASE("model: parameter names, ties and views", "[nn]") {
  Model m;
  const auto x = m.input("x", {4});
  const auto a = m.block("first", Layer{4}, x);
  const auto b = m.block("blocks.0", nn::chain(nn::named("up", Layer{4}), nn::Silu{}, Layer{4}), a);
  m.block("head", Layer{.features = 4, .tie = "first.weight"}, b);
  CHECK(names(m) == std::vector<std::string>{"first.weight", "blocks.0.up.weight",
                                             "blocks.0.2.weight", "head.weight"});
  const E exec;
  const auto store = m.make_store(exec, 1);
  CHECK(store.segments().size() == 3);
  const auto first = m.views(0, store, true), head = m.views(2, store, true);
  REQUIRE(first.size() == 1);
  CHECK(first[0].value == head[0].value);
  CHECK(first[0].grad == head[0].grad);
  CHECK(m.views(1, store, true).size() == 2);
  CHECK(m.views(0, store, false)[0].grad == nullptr);
}

TEST_CASE("model: a tie to nothing, or to other extents, is refused by name", "[nn]") {
  const E exec;
  Model m;
  const auto x = m.input("x", {4});
  const auto a = m.block("a", Layer{.features = 4, .tie = "nowhere.weight"}, x);
  CHECK_THROWS_WITH(m.make_store(exec, 1),
                    ContainsSubstring("\"a.weight\" is tied to \"nowhere.weight\""));
  static_cast<void>(a);
  Model n;
  const auto y = n.input("x", {4});
  const auto b = n.block("a", Layer{4}, y);
  const auto c = n.block("half", nn::SwiGlu{}, b);
  n.block("b", Layer{.features = 2, .tie = "a.weight"}, c);
  CHECK_THROWS_WITH(n.make_store(exec, 1),
                    ContainsSubstring("\"b.weight\" (2)") && ContainsSubstring("\"a.weight\" (4)"));
}

TEST_CASE("model: mistakes end with the block's name and both shapes", "[nn]") {
  Model m;
  CHECK_THROWS_WITH(m.input_value(), ContainsSubstring("no input"));
  const auto x = m.input("x", {4});
  CHECK_THROWS_WITH(m.input("y", {4}), ContainsSubstring("\"y\" would be the second"));
  CHECK_THROWS_WITH(m.block("wide", Layer{5}, x),
                    ContainsSubstring("block \"wide\": scale: the last extent must be 5") &&
                        ContainsSubstring("(1, 4)"));
  CHECK_THROWS_WITH(m.block("flat", Flatten{}, x),
                    ContainsSubstring("block \"flat\" turns one sample into (8)"));
  const auto a = m.block("a", Layer{4}, x);
  const auto half = m.block("half", nn::SwiGlu{}, a);
  CHECK_THROWS_WITH(m.add("sum", {a, half}),
                    ContainsSubstring("block \"sum\": add: shapes differ"));
  CHECK_THROWS_WITH(m.add("sum", {a}), ContainsSubstring("at least two values, not 1"));
  CHECK_THROWS_WITH(m.block("b", nn::Silu{}, nn::ValueId{17}),
                    ContainsSubstring("value 17 does not exist"));
  CHECK_THROWS_WITH(m.block_at(99), ContainsSubstring("block 99 does not exist"));
  CHECK_THROWS_WITH(m.block("a", Layer{4}, a),
                    ContainsSubstring("two parameters are called \"a.weight\""));
}

TEST_CASE("add block: sums in order, hands its gradient to every input that wants it", "[nn]") {
  const E exec;
  const nn::AddBlock<TestDevice, float> add;
  const Shape shape{2, 3};
  std::array<Tensor<float, 1, M>, 5> t;
  for (std::size_t i = 0; i < t.size(); ++i) {
    t[i] = Tensor<float, 1, M>(exec, "t", {6});
    fill(exec, t[i].ref(), static_cast<float>(i + 1));
  }
  const auto any = [&](std::size_t i) { return AnyRef<M>{t[i].data(), DType::f32, shape}; };
  const nn::BatchInfo batch{0, 2, 1, 0};
  const nn::Context<TestDevice, float> ctx(exec, nn::CallInfo{}, batch, {}, {}, nullptr, nullptr);
  const std::vector<AnyRef<M>> x{any(0), any(1), any(2)};
  add.forward(ctx, x, any(3));
  CHECK(download(exec, t[3].ref()) == std::vector<float>(6, 6.0F));
  // dy = 5; the second input wants no gradient.
  std::vector<AnyRef<M>> dx{any(0), any(1), any(2)};
  dx[1].data = nullptr;
  add.backward(ctx, x, any(3), any(4), dx);
  CHECK(download(exec, t[0].ref()) == std::vector<float>(6, 5.0F));
  CHECK(download(exec, t[1].ref()) == std::vector<float>(6, 2.0F));
  CHECK(download(exec, t[2].ref()) == std::vector<float>(6, 5.0F));
}
