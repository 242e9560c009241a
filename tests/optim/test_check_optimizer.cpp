// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/testing/check_optimizer.hpp>

#include <krama/optim/adam.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/optim/sgd.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using testing::check_optimizer;

TEMPLATE_TEST_CASE("optimizers: keep the contract", "[optim]", double, float) {
  CHECK(check_optimizer<TestDevice, TestType>(optim::AdamW{}).text() == "");
  CHECK(check_optimizer<TestDevice, TestType>(optim::Adam{.weight_decay = 0.1}).text() == "");
  CHECK(check_optimizer<TestDevice, TestType>(optim::Sgd{}).text() == "");
  CHECK(check_optimizer<TestDevice, TestType>(
            optim::Sgd{.momentum = 0.9, .nesterov = true, .l2 = 0.1})
            .text() == "");
}

namespace {

/// Sign descent with a mistake of choice.
enum class Mistake : std::uint8_t { none, moves_frozen, depends_on_cut, unlabelled, keeps_still };
struct Faulty {
  Mistake mistake = Mistake::none;

  static constexpr std::string_view type_name = "faulty";
  static constexpr std::size_t states = 0;
  static constexpr std::array<std::string_view, 0> state_names = {};

  template <Device D, class A>
  void update(const exec_of<D>& exec, const optim::UpdateRange<A, mem_of<D>>& range,
              const optim::UpdateScalars& s) const {
    A* w = range.values.data();
    const A* g = range.grads.data();
    const std::uint8_t* attributes = range.attributes.data();
    const A lr = static_cast<A>(s.lr);
    const bool frozen_too = mistake == Mistake::moves_frozen;
    const A shift = mistake == Mistake::depends_on_cut ? static_cast<A>(range.values.size()) : A{0};
    if (mistake == Mistake::keeps_still) return;
    kokkos_ext::launch(
        exec, mistake == Mistake::unlabelled ? "update" : "user::faulty", range.values.size(),
        KOKKOS_LAMBDA(std::int64_t i) {
          if ((attributes[i / chunk_size] & chunk_frozen) != 0 && !frozen_too) return;
          const A sign = g[i] > A{0} ? A{1} : g[i] < A{0} ? A{-1} : A{0};
          w[i] -= lr * sign * (A{1} + shift);
        });
  }
};

std::string report(Mistake m) { return check_optimizer<TestDevice, float>(Faulty{m}).text(); }

}  // namespace

TEST_CASE("check_optimizer: sees mistakes in a user's optimizer", "[optim]") {
  CHECK(report(Mistake::none) == "");
  CHECK_THAT(report(Mistake::moves_frozen), ContainsSubstring("is frozen, but changed"));
  CHECK_THAT(report(Mistake::depends_on_cut), ContainsSubstring("a cut range gives other bits"));
  CHECK_THAT(report(Mistake::unlabelled), ContainsSubstring("does not say whose it is"));
  CHECK_THAT(report(Mistake::keeps_still), ContainsSubstring("no value changed"));
}
