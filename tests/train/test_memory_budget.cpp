// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/models/gpt.hpp>

#include <array>
#include <catch2/catch_all.hpp>
#include <optional>

#include "train/train_test.hpp"

using namespace train_test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Rows of numbers as texts: each token the next one's input.
class Texts {
 public:
  using input_type = std::int32_t;
  using target_type = std::int32_t;
  static constexpr std::int64_t context = 16;
  [[nodiscard]] std::int64_t size() const { return 60; }
  [[nodiscard]] krama::Shape input_shape() const { return {context}; }
  [[nodiscard]] std::int64_t targets_per_sample() const { return context; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return context; }
  void fetch(std::span<const std::int64_t> ids, std::span<std::int32_t> x,
             std::span<std::int32_t> y, std::span<float> weights) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto id = ids[i / context];
      x[i] = static_cast<std::int32_t>((id * 7 + static_cast<std::int64_t>(i % context)) % 19);
      y[i] = (x[i] + 3) % 19;
      weights[i] = 1;
    }
  }
};

struct GptCase {
  static auto model() {
    return krama::models::gpt<D, float>({.vocabulary = 19,
                                         .context = Texts::context,
                                         .features = 16,
                                         .layers = 5,
                                         .heads = 2,
                                         .dropout = 0.1});
  }
  static Texts data() { return {}; }
};
struct MlpCase {
  static auto model() { return krama::models::mlp<D, float>({{2, 64, 64, 64, 64, 2}}); }
  static auto data() { return points(60); }
};

template <class Case>
struct Job {
  using Trainer =
      krama::train::Trainer<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm>;
  explicit Job(krama::MpiComm comm, std::int64_t weights_budget = 0)
      : model(Case::model()),
        store(model.make_store(
            exec, 1, weights_budget > 0 ? std::optional(krama::TierOptions{}) : std::nullopt)),
        // Fixed shares: those that follow speed differ from run to run, and with them the last bits.
        trainer(exec, model, store, {}, {}, krama::optim::Schedule::constant(0.01), comm,
                {.global_batch = 24,
                 .steps = 4,
                 .shares = krama::train::parse_shares("equal", comm.size()),
                 .executor = {.micro_batch = 4, .weights_budget = weights_budget}}) {}
  [[nodiscard]] auto values() const { return krama::download(exec, store.values()); }

  krama::exec_of<D> exec;
  krama::nn::Model<D, float> model;
  krama::ParamStore<float, krama::mem_of<D>> store;
  Trainer trainer;
};

}  // namespace

TEMPLATE_TEST_CASE("memory budget: the bits of training without one", "[train]", GptCase, MlpCase) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  Job<TestType> free(world);
  const auto all = free.trainer.executor().memory().peak;
  free.trainer.fit(data);
  const auto least = krama::plan::smallest_step_budget(free.trainer.executor().sizes());
  REQUIRE(least < all);
  for (const double part : {0.1, 0.5, 1.0}) {
    Job<TestType> job(world);
    // Every rank has a budget of its own.
    const auto room = static_cast<double>(all - least) * part / (1 + 0.3 * world.rank());
    const auto budget = least + least / 16 + static_cast<std::int64_t>(room);
    job.trainer.memory_budget(budget);
    job.trainer.fit(data);
    CHECK(job.trainer.executor().memory().peak <= budget);
    CHECK_THAT(job.trainer.memory_plan(), ContainsSubstring("micro-batch"));
    CHECK(same_bits(free.values(), job.values()));
    CHECK(job.trainer.evaluate(data) == free.trainer.evaluate(data));
  }
}

TEST_CASE("memory budget: what cannot fit is refused on all ranks before step 1", "[train]") {
  auto world = krama::MpiComm::world();
  Job<GptCase> job(world);
  const auto before = job.values();
  const auto least = krama::plan::smallest_step_budget(job.trainer.executor().sizes());
  // Only the last rank has too little.
  const bool last = world.rank() == world.size() - 1;
  job.trainer.memory_budget(last ? least / 2 : least * 4);
  // Its device may need another amount than this rank's.
  const auto its_least = world.gather_text(std::to_string(least), "least").back();
  CHECK_THROWS_WITH(job.trainer.fit(GptCase::data()),
                    ContainsSubstring("smallest budget") && ContainsSubstring(its_least));
  CHECK(job.trainer.steps_done() == 0);
  CHECK(same_bits(before, job.values()));
  // What the refusal names does work.
  job.trainer.memory_budget(least);
  job.trainer.fit(GptCase::data());
  CHECK(job.trainer.steps_done() == 4);
  CHECK(job.trainer.executor().memory().peak <= least);
}

TEST_CASE("weights budget: beside a memory budget, and refused on all ranks if too small",
          "[train]") {
  auto world = krama::MpiComm::world();
  const auto data = GptCase::data();
  Job<GptCase> free(world);
  free.trainer.fit(data);
  // Devices keep parameters in near memory, also beside hosts that do not.
  constexpr bool on_host = krama::SwapLink<D>::host_memory;
  const auto least = krama::WeightWindow<D, float>::smallest(free.model, free.store);
  Job<GptCase> job(world, on_host ? least * 3 / 2 : 0);
  const auto budget = krama::plan::smallest_step_budget(job.trainer.executor().sizes()) * 5 / 4;
  job.trainer.memory_budget(budget);
  job.trainer.fit(data);
  CHECK(same_bits(free.values(), job.values()));
  CHECK(job.trainer.executor().memory().peak <= budget);
  if (on_host) CHECK(job.trainer.executor().window()->bytes() <= least * 3 / 2);
  // Only the last host has too little.
  const std::array<double, 1> mine{on_host ? 1.0 : 0.0};
  const auto hosts = krama::gather_numbers(world, mine, "hosts");
  int last = world.size() - 1;
  while (last >= 0 && hosts[static_cast<std::size_t>(last)][0] == 0) --last;
  if (last < 0) return;
  CHECK_THROWS_WITH(Job<GptCase>(world, !on_host               ? 0
                                        : world.rank() == last ? least - 1
                                                               : least),
                    ContainsSubstring("out of memory") &&
                        ContainsSubstring("smallest that works is " + std::to_string(least)));
}
