// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>

#include <catch2/catch_all.hpp>
#include <limits>

#include "train/train_test.hpp"

using namespace train_test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Counts how often each sample is asked for on this rank.
class Counting {
 public:
  using input_type = float;
  using target_type = std::int32_t;
  explicit Counting(std::int64_t samples)
      : inner_(points(samples)), seen_(static_cast<std::size_t>(samples), 0.0) {}
  [[nodiscard]] std::int64_t size() const { return inner_.size(); }
  [[nodiscard]] krama::Shape input_shape() const { return inner_.input_shape(); }
  [[nodiscard]] std::int64_t targets_per_sample() const { return 1; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return 1; }
  void fetch(std::span<const std::int64_t> ids, std::span<float> x, std::span<std::int32_t> y,
             std::span<float> weights) const {
    for (const auto id : ids) seen_[static_cast<std::size_t>(id)] += 1;
    inner_.fetch(ids, x, y, weights);
  }
  [[nodiscard]] std::vector<double> seen() const { return seen_; }

 private:
  krama::train::LabelledRows inner_;
  mutable std::vector<double> seen_;
};

}  // namespace

TEST_CASE("evaluate: D06 each sample exactly once, for any number of ranks and shares", "[train]") {
  auto world = krama::MpiComm::world();
  Setup<double, krama::SelfComm> alone(krama::SelfComm("alone"),
                                       {.steps = 1, .executor = {.micro_batch = 64}});
  for (const std::int64_t samples : {1, 2, 7, 50}) {
    const double wanted = alone.trainer.evaluate(points(samples));
    for (const auto& shares : some_shares(world.size())) {
      CAPTURE(samples, shares);
      Setup<double, krama::MpiComm> s(
          world, {.steps = 1, .shares = {.fixed = shares}, .executor = {.micro_batch = 4}});
      const Counting source(samples);
      const double loss = s.trainer.evaluate(source);
      CHECK(loss == Catch::Approx(wanted).epsilon(1e-13));
      auto seen = source.seen();
      world.sum_in_rank_order(seen, "seen");
      CHECK(seen == std::vector<double>(static_cast<std::size_t>(samples), 1.0));
    }
  }
}

TEST_CASE("fit: any ranks and shares train what one rank trains", "[train]") {
  auto world = krama::MpiComm::world();
  const auto data = points(90);
  Setup<double, krama::SelfComm> alone(
      krama::SelfComm("alone"),
      {.global_batch = 16, .steps = 9, .seed = 4, .executor = {.micro_batch = 16}});
  const auto before = alone.values();
  alone.trainer.fit(data);
  const auto wanted = alone.values();
  CHECK_FALSE(same_bits(before, wanted));
  for (const auto& shares : some_shares(world.size())) {
    CAPTURE(shares);
    Setup<double, krama::MpiComm> s(world, {.global_batch = 16,
                                            .steps = 9,
                                            .seed = 4,
                                            .shares = {.fixed = shares},
                                            .executor = {.micro_batch = 3}});
    std::vector<std::int64_t> steps;
    s.trainer.fit(data, [&](const krama::train::StepReport& r) {
      steps.push_back(r.step);
      CHECK(std::accumulate(r.samples.begin(), r.samples.end(), std::int64_t{0}) == 16);
      CHECK(r.fraction == Catch::Approx(static_cast<double>(r.step) / 9.0));
      return true;
    });
    CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});
    const auto found = s.values();
    double largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::abs(found[i] - wanted[i]));
    }
    CHECK(largest < 1e-9);
  }
}

TEST_CASE("fit: one rank's wish to stop stops all after the same step", "[train]") {
  auto world = krama::MpiComm::world();
  Setup<float, krama::MpiComm> s(world,
                                 {.global_batch = 8, .steps = 50, .executor = {.micro_batch = 8}});
  const int last = world.size() - 1;
  s.trainer.fit(points(40), [&](const krama::train::StepReport& r) {
    return !(world.rank() == last && r.step == 3);
  });
  CHECK(s.trainer.steps_done() == 3);
  s.trainer.fit(points(40));  // goes on to the end
  CHECK(s.trainer.steps_done() == 50);
}

TEST_CASE("fit: N07 a sample that is not a number ends training on every rank", "[train]") {
  auto world = krama::MpiComm::world();
  std::vector<float> x{0.1F, 0.2F, std::numeric_limits<float>::quiet_NaN(), 0.3F};
  const krama::train::LabelledRows bad(x, {0, 1}, 2, 2, "bad rows");
  Setup<float, krama::MpiComm> s(world,
                                 {.global_batch = 4, .steps = 5, .executor = {.micro_batch = 4}});
  const auto before = s.values();
  CHECK_THROWS_WITH(s.trainer.fit(bad),
                    ContainsSubstring("step 1") && ContainsSubstring("not finite"));
  CHECK(same_bits(before, s.values()));  // the step changed nothing
}

TEST_CASE("trainer: options that cannot work are refused", "[train]") {
  auto world = krama::MpiComm::world();
  using S = Setup<float, krama::MpiComm>;
  CHECK_THROWS_WITH(S(world, {.global_batch = 0, .steps = 1}), ContainsSubstring("global batch"));
  CHECK_THROWS_WITH(S(world, {.global_batch = 4}), ContainsSubstring("time limit"));
  const std::vector<double> too_many(static_cast<std::size_t>(world.size()) + 1, 1.0);
  CHECK_THROWS_WITH(S(world, {.steps = 1, .shares = {.fixed = too_many}}),
                    ContainsSubstring("shares"));
  // A source of another width than the model's input.
  Setup<float, krama::MpiComm> s(world,
                                 {.global_batch = 4, .steps = 1, .executor = {.micro_batch = 4}});
  const krama::train::LabelledRows wide(std::vector<float>(12, 0.0F), {0, 1, 0, 1}, 3, 2, "wide");
  CHECK_THROWS_WITH(s.trainer.evaluate(wide), ContainsSubstring("inputs"));
}
