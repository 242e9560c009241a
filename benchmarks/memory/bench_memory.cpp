// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Training beyond memory: a GPT-2-like model whose saved values are 2, 3 and 6 times the memory that
// remains for them, on links over which a step's saved bytes take 0.5, 1 and 3 times the in-core
// step's compute, each way. One core computes, another moves: near memory is an arena of the budgeted
// size, the far tier lies outside the process's anonymous memory behind a link of the wanted speed.
// All methods are plans for the same executor. `bench_memory --quick` takes the middle cell only.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <krama/comm/self.hpp>
#include <krama/models/gpt.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/plan/baselines.hpp>
#include <krama/program/profile.hpp>
#include <krama/runtime/kokkos_scope.hpp>

#include "support/bench.hpp"

namespace {

using namespace krama;
using D = Kokkos::DefaultHostExecutionSpace::device_type;
using Exec = Executor<D, float, nn::CrossEntropy, optim::Sgd, SelfComm>;

constexpr std::int64_t batch = 2;
constexpr std::int64_t context = 128;
constexpr std::int64_t vocabulary = 512;

struct Method {
  std::string name;
  std::optional<plan::MemoryPlan> (*plan)(const plan::StepCosts&);
};
std::optional<plan::MemoryPlan> krama_plan(const plan::StepCosts& costs) {
  try {
    return plan::plan_memory(costs);
  } catch (const plan::DoesNotFit&) {
    return std::nullopt;
  }
}
const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      {"krama", krama_plan},
      {"eager swap", plan::eager_swap},
      {"recompute all", plan::recompute_all},
      {"square root", plan::square_root_checkpoints},
      {"capacity swap", plan::capacity_swap},
      {"hybrid", plan::profiled_hybrid},
  };
  return all;
}

/// Model, data and one rank's executor under a memory plan.
class Job {
 public:
  Job()
      : model_(models::gpt<D, float>({.vocabulary = vocabulary,
                                      .context = context,
                                      .features = 192,
                                      .layers = 12,
                                      .heads = 6})),
        store_(model_.make_store(exec_, 1)),
        executor_(make({}, {})) {}

  void follow(const plan::Offload& offload, const LinkModel& link) {
    executor_ = nullptr;
    executor_ = make(offload, link);
  }
  /// Forward and backward of one micro-batch.
  void step() {
    executor_->gradients_only(1, 0, batch, [&](int, const auto& to) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * context));
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>(uniform({1, 1, 0}, i) * vocabulary);
      }
      upload(exec_, to.input.template as<std::int32_t, 1>(), std::span<const std::int32_t>(tokens));
      upload(exec_, to.targets, std::span<const std::int32_t>(tokens));
      fill(exec_, to.weights, 1.0F);
    });
  }
  /// Seconds from the first forward to the last backward: what is planned, without feed and update.
  double timed_step() {
    executor_->trace().start(1 << 16);
    step();
    double begin = std::numeric_limits<double>::infinity();
    double end = 0;
    for (const auto& e : executor_->trace().take()) {
      if (e.instr.micro != 0 || e.instr.op == plan::Op::feed) continue;
      begin = std::min(begin, e.begin_us);
      end = std::max(end, e.end_us);
    }
    return (end - begin) * 1e-6;
  }
  /// Equal for equal gradients.
  [[nodiscard]] double sum_of_gradients() const {
    double s = 0;
    for (const float g : download(exec_, store_.grads())) s += static_cast<double>(g);
    return s;
  }
  plan::StepCosts measure() {
    return measure_step(exec_, *executor_, [&] { step(); }, 7);
  }
  [[nodiscard]] Exec& executor() { return *executor_; }

 private:
  std::unique_ptr<Exec> make(const plan::Offload& offload, const LinkModel& link) {
    return std::make_unique<Exec>(
        exec_, model_, store_, nn::CrossEntropy{}, optim::Sgd{}, SelfComm("bench"),
        ExecutorOptions{.micro_batch = batch, .offload = offload, .swap = {.link = link}});
  }
  exec_of<D> exec_;
  nn::Model<D, float> model_;
  ParamStore<float, mem_of<D>> store_;
  std::unique_ptr<Exec> executor_;
};

struct Cell {
  double capacity, slowness;
};

struct Totals {
  int cells = 0;
  int near_prediction = 0;
  double worst_over_prediction = 0;
  double worst_under_prediction = 0;
  double worst_over_best_other = 0;
  double log_speed_up = 0;  ///< against eager swap
  int compared = 0;
};

void run_cell(bench::Report& report, Job& job, const plan::StepCosts& profile, const Cell& cell,
              double reference, Totals& totals) {
  plan::StepCosts costs = profile;
  const double in_core = profile.in_core_seconds();
  const auto saved = profile.saved_bytes();
  costs.budget = static_cast<std::int64_t>(static_cast<double>(saved) / cell.capacity);
  const double bandwidth = static_cast<double>(saved) / (cell.slowness * in_core);
  const LinkModel link{.latency = 1e-4, .out_bandwidth = bandwidth, .in_bandwidth = bandwidth};
  costs.link = {link.latency, bandwidth, bandwidth};
  const std::string label =
      fmt::format("gpt2 {}x capacity, link {}x", cell.capacity, cell.slowness);

  std::vector<std::string> names;
  std::vector<plan::MemoryPlan> plans;
  for (const auto& m : methods()) {
    if (auto p = m.plan(costs)) {
      names.push_back(m.name);
      plans.push_back(std::move(*p));
    }
  }
  bench::Timings times(plans.size());
  constexpr int rounds = 5;
  // In turn, there and back, so that whatever disturbs the machine disturbs all alike.
  for (int r = 0; r < rounds; ++r) {
    for (std::size_t k = 0; k < plans.size(); ++k) {
      const std::size_t i = r % 2 == 0 ? k : plans.size() - 1 - k;
      job.follow(plan::Offload::of(costs, plans[i].what), link);
      job.step();
      if (r == 0) {
        report.check(label + " " + names[i] + ": gradients of keeping all",
                     std::abs(job.sum_of_gradients() - reference), 0);
      }
      times.add(i, job.timed_step());
    }
  }
  report.record(label, names, times);
  double best_other = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < names.size(); ++i) {
    best_other = std::min(best_other, times.seconds(i));
    if (names[i] == "eager swap") {
      totals.log_speed_up += std::log(times.seconds(i) / times.seconds(0));
      ++totals.compared;
    }
  }
  const double mine = times.seconds(0);
  const double predicted = plans[0].predicted.seconds;
  fmt::print(
      "  predicted {:.1f} ms (bound {:.1f}), measured {:.1f} ms; in-core {:.1f} ms: {:.2f} "
      "times; best other {:.2f} times\n",
      predicted * 1e3, plans[0].lower_bound * 1e3, mine * 1e3, in_core * 1e3, mine / in_core,
      best_other / in_core);
  ++totals.cells;
  if (mine <= 1.10 * predicted) ++totals.near_prediction;
  totals.worst_over_prediction = std::max(totals.worst_over_prediction, mine / predicted);
  totals.worst_under_prediction = std::max(totals.worst_under_prediction, predicted / mine);
  totals.worst_over_best_other = std::max(totals.worst_over_best_other, mine / best_other);
}

int all(bool quick) {
  bench::Report report("memory");
  Job job;
  job.step();
  const double reference = job.sum_of_gradients();
  const plan::StepCosts profile = job.measure();
  fmt::print("GPT-2-like: {} blocks, {:.1f} MiB saved, {:.1f} ms a micro-batch in-core\n",
             profile.count(), static_cast<double>(profile.saved_bytes()) / 1048576.0,
             profile.in_core_seconds() * 1e3);
  Totals totals;
  for (const double capacity : {2.0, 3.0, 6.0}) {
    for (const double slowness : {0.5, 1.0, 3.0}) {
      if (quick && (capacity != 3.0 || slowness != 1.0)) continue;
      run_cell(report, job, profile, {capacity, slowness}, reference, totals);
    }
  }
  const auto cells = static_cast<double>(totals.cells);
  fmt::print(
      "(published: others lose 28 to 38 % at three times capacity; a step takes 1.8 times as "
      "long at 7.5 times)\n");
  report.bar("memory_cells_within_1.10_of_plan", totals.near_prediction / cells, 0.95,
             bench::Better::higher);
  report.bar("memory_worst_over_plan", totals.worst_over_prediction, 1.25);
  report.bar("memory_plan_over_measured_worst", totals.worst_under_prediction, 1.10);
  report.bar("memory_over_best_other_worst", totals.worst_over_best_other, 1.02);
  report.bar("memory_speed_up_over_eager_swap",
             std::exp(totals.log_speed_up / std::max(totals.compared, 1)), 1.52,
             bench::Better::higher);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  // One core computes, the other moves.
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads == nullptr || std::strcmp(threads, "1") != 0) {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  bench::clean_environment(argv);
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const krama::KokkosScope kokkos(argc, argv);
  return all(quick);
}
