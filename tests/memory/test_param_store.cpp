// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/memory/arena.hpp>
#include <krama/memory/param_store.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <vector>

using namespace krama;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {
using M = mem_of<TestDevice>;
using E = exec_of<TestDevice>;

/// Five segments with a tie: sizes 300, 7, 1, 256, and the first again.
std::vector<ParamInfo> some_params() {
  ParamSpec spec;
  spec("table", {100, 3}, Init::normal(0.5));
  spec.within("head", [&] {
    spec("bias", {7}, Init::constant(0.25), {.decay = false});
    spec("scale", {1}, Init::ones(), {.decay = true, .frozen = true});
    spec("weight", {16, 16}, Init::uniform(2.0));
    spec("tied", {100, 3}, Init::zeros(), {.tie = "table"});
  });
  return spec.infos();
}
}  // namespace

TEST_CASE("param_spec: names are joined with dots and occur once", "[memory]") {
  const auto infos = some_params();
  CHECK(infos[0].name == "table");
  CHECK(infos[1].name == "head.bias");
  ParamSpec spec;
  spec("w", {1}, Init::zeros());
  CHECK_THROWS_WITH(spec("w", {1}, Init::zeros()),
                    ContainsSubstring("two parameters are called \"w\""));
}

TEST_CASE("param_spec: initialisers have the scale of their papers", "[memory]") {
  CHECK(Init::kaiming_uniform(6).scale == Approx(1.0));
  CHECK(Init::xavier_uniform(2, 4).scale == Approx(1.0));
  CHECK_THROWS_WITH(Init::kaiming_uniform(0), ContainsSubstring("fan-in must be positive"));
  CHECK_THROWS_WITH(Init::xavier_uniform(0, 0), ContainsSubstring("fans must be positive"));
}

TEMPLATE_TEST_CASE("param_store: chunks, offsets and attributes", "[memory]", double, float, bf16,
                   f16) {
  const E exec;
  const ParamStore<TestType, M> store(exec, some_params());
  const auto& s = store.segments();
  REQUIRE(s.size() == 4);
  CHECK(store.declared() == 5);
  CHECK(s[0].offset == 0);
  CHECK(s[1].offset == 512);
  CHECK(s[2].offset == 768);
  CHECK(s[3].offset == 1024);
  CHECK(store.size() == 1280);
  CHECK(store.chunks() == 5);
  CHECK(store.parameter_count() == 300 + 7 + 1 + 256);
  CHECK(&store.segment_of(4) == &s[0]);
  const std::vector<std::uint8_t> want{chunk_decays, chunk_decays, 0, chunk_decays | chunk_frozen,
                                       chunk_decays};
  CHECK(download(exec, store.attributes()) == want);
}

TEST_CASE("param_store: first values depend on seed, name and element alone", "[memory]") {
  const E exec;
  const ParamStore<double, M> store(exec, some_params());
  store.initialise(exec, 5);
  const auto a = download(exec, store.values());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    sum += a[i];
    squares += a[i] * a[i];
  }
  CHECK(sum / 300.0 == Approx(0.0).margin(0.1));
  CHECK(std::sqrt(squares / 300.0) == Approx(0.5).margin(0.06));
  for (std::size_t i = 512; i < 519; ++i) CHECK(a[i] == 0.25);
  CHECK(a[768] == 1.0);
  for (std::size_t i = 1024; i < 1280; ++i) CHECK(std::abs(a[i]) <= 2.0);
  // Padding is zero.
  for (std::size_t i = 300; i < 512; ++i) CHECK(a[i] == 0.0);
  CHECK(a[519] == 0.0);

  // Alone in another store, "head.weight" gets the same values; another seed gives others.
  ParamSpec spec;
  spec("head.weight", {16, 16}, Init::uniform(2.0));
  const ParamStore<double, M> alone(exec, spec.infos());
  alone.initialise(exec, 5);
  const auto b = download(exec, alone.values());
  CHECK(std::vector<double>(a.begin() + 1024, a.end()) == b);
  alone.initialise(exec, 6);
  CHECK(download(exec, alone.values()) != b);
}

TEST_CASE("param_store: the working copy is the rounded values", "[memory]") {
  const E exec;
  const ParamStore<bf16, M> store(exec, some_params());
  store.initialise(exec, 1);
  const auto values = download(exec, store.values());
  const auto working = download(exec, TensorRef<const bf16, 1, M>(store.working(), {store.size()}));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (working[i].bits != bf16(values[i]).bits) ++wrong;
  }
  CHECK(wrong == 0);
  const ParamStore<float, M> plain(exec, some_params());
  CHECK(plain.working() == plain.values().data());
}

TEST_CASE("param_store: fingerprints tell layouts and values apart", "[memory]") {
  const E exec;
  const auto infos = some_params();
  const ParamStore<float, M> a(exec, infos), b(exec, infos);
  CHECK(a.layout_fingerprint() == b.layout_fingerprint());
  CHECK(a.layout_fingerprint() != ParamStore<double, M>(exec, infos).layout_fingerprint());
  auto other = infos;
  other[1].name = "head.biases";
  CHECK(a.layout_fingerprint() != ParamStore<float, M>(exec, other).layout_fingerprint());
  other = infos;
  other[1].extents = {8};
  CHECK(a.layout_fingerprint() != ParamStore<float, M>(exec, other).layout_fingerprint());
  other = infos;
  other[1].options.decay = true;
  CHECK(a.layout_fingerprint() != ParamStore<float, M>(exec, other).layout_fingerprint());

  a.initialise(exec, 3);
  b.initialise(exec, 3);
  const auto before = a.value_fingerprints(exec);
  CHECK(before == b.value_fingerprints(exec));
  auto values = download(exec, b.values());
  values[1100] = std::nextafterf(values[1100], 10.0F);
  upload(exec, b.values(), std::span<const float>(values));
  const auto after = b.value_fingerprints(exec);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK((before[i] == after[i]) == (i != 3));
}

TEST_CASE("param_store: ties that cannot be and empty parameters are refused", "[memory]") {
  const E exec;
  const auto make = [&](const std::vector<ParamInfo>& infos) {
    return ParamStore<float, M>(exec, infos).size();
  };
  CHECK_THROWS_WITH(make({{"a", {2, 3}, {}, {}}, {"b", {3, 2}, {}, {.tie = "a"}}}),
                    ContainsSubstring("\"b\" (3, 2) cannot be tied to \"a\" (2, 3)"));
  CHECK_THROWS_WITH(make({{"b", {3, 2}, {}, {.tie = "a"}}}),
                    ContainsSubstring("\"b\" is tied to \"a\", which no earlier block declares"));
  CHECK_THROWS_WITH(make({{"a", {2}, {}, {}}, {"a", {2}, {}, {}}}),
                    ContainsSubstring("two parameters are called \"a\""));
  CHECK_THROWS_WITH(make({{"a", {0, 4}, {}, {}}}),
                    ContainsSubstring("\"a\" (0, 4) has no elements"));
}

TEST_CASE("arena: a budget is checked before the machine is asked (O02)", "[memory]") {
  const E exec;
  const Arena<M> arena(exec, "activations", 1000, 1000);
  CHECK(arena.bytes() == 1000);
  CHECK(arena.at(10) == arena.at(0) + 10);
  CHECK_THROWS_WITH(Arena<M>(exec, "activations", 1001, 1000),
                    ContainsSubstring("\"activations\" wants 1001 bytes") &&
                        ContainsSubstring("the budget is 1000 bytes"));
}
