// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A mixed job against the sum of its parts. Ranks of emulated speeds train a small GPT; gradients are
// computed, time is emulated by sleeping, so that four ranks fit on two cores. For each mix:
//   - solo: each rank takes the whole batch while the others only take part in communication;
//   - the bound: the step with the best whole shares, from the measured solo times;
//   - the mixed job with shares that follow speed (the model rule with its line and with a measured
//     curve, the proportional rule) and equal ones, from step 11 on (the first ten may adapt), as a
//     part of the sum of solo throughputs.
// Times are those that a quarter of the steps keep within, in all of them.
// Then a rank that gets 2x slower and recovers, and 5 % noise; and last bench_border.
// Started by itself it is the driver that starts the jobs; started by mpiexec it is a job.

#include <krama/plan/solve_shares.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "mixed/emulated_job.hpp"
#include "support/job.hpp"

namespace {

namespace train = krama::train;
using krama::plan::Shares;
using mixed_bench::batch;
using mixed_bench::Job;
using mixed_bench::Result;

constexpr std::int64_t adapting = 10;  ///< steps that may be spent on finding the shares

/// Of a well shared step: long enough that messages between ranks that share cores hardly count.
double step_seconds(std::size_t ranks) { return 0.1 * static_cast<double>(ranks); }

std::vector<double> parse_mix(const std::string& text) {
  std::vector<double> mix;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ':');) mix.push_back(std::stod(word));
  return mix;
}

/// One line of a job's file: a name and numbers.
class Lines {
 public:
  Lines(krama::World& world, const std::string& path)
      : file_(world.rank() == 0 ? std::fopen(path.c_str(), "w") : nullptr) {
    KRAMA_EXPECTS(world.rank() != 0 || file_ != nullptr, "cannot write \"{}\"", path);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() {
    if (file_ != nullptr) std::fclose(file_);
  }
  void put(const std::string& name, const std::vector<double>& numbers) {
    if (file_ == nullptr) return;
    std::string line = name;
    for (const double n : numbers) line += fmt::format(" {:.9g}", n);
    std::fprintf(file_, "%s\n", line.c_str());
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
};

train::ShareOptions rule(train::ShareRule which) { return {.rule = which}; }

/// Steps of the part [begin, end) before the shares were, and stayed, within the bar of the best whole
/// shares at these speeds (rank r needs slowness[r] for a sample).
double reached_after(const Result& r, std::size_t begin, std::size_t end,
                     const std::vector<double>& slowness) {
  const auto cost = [&](std::size_t q, std::int64_t n) {
    return slowness[q] * static_cast<double>(n);
  };
  const double best =
      krama::plan::slowest(krama::plan::solve_shares(batch, slowness.size(), {}, cost), cost);
  std::size_t at = end;
  while (at > begin && best >= 0.985 * krama::plan::slowest(r.steps[at - 1].shares, cost)) --at;
  return static_cast<double>(at - begin);
}

void mix_job(krama::World& world, const std::vector<double>& mix, Lines& lines) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const double mine = mixed_bench::seconds_per_sample(mix, static_cast<std::size_t>(world.rank()),
                                                      step_seconds(mix.size()));
  std::int64_t overruns = 0;
  const auto run = [&](Job job) {
    Result r = mixed_bench::run_job(world, mine, std::move(job));
    overruns += r.overruns;
    return r;
  };
  for (std::size_t q = 0; q < ranks; ++q) {
    std::vector<double> alone(ranks, 0.0);
    alone[q] = 1;
    const Result r = run({.shares = {.fixed = alone}, .steps = 6});
    lines.put("solo", {r.quiet(1, 6)});
  }
  const auto put = [&](const std::string& name, const Result& r) {
    std::vector<double> numbers{
        r.quiet(adapting, r.steps.size()), r.quiet_rest(adapting, r.steps.size()),
        reached_after(r, 0, r.steps.size(), mix), static_cast<double>(r.changes_in(0, 1 << 20))};
    for (const auto n : r.steps.back().shares) numbers.push_back(static_cast<double>(n));
    lines.put(name, numbers);
  };
  const std::int64_t steps = adapting + 20;
  put("model", run({.shares = rule(train::ShareRule::model), .steps = steps}));
  put("curve",
      run({.shares = {.model = {.shape = krama::plan::CurveShape::measured}}, .steps = steps}));
  put("proportional", run({.shares = rule(train::ShareRule::proportional), .steps = steps}));
  put("equal", run({.shares = {.fixed = std::vector<double>(ranks, 1.0)}, .steps = adapting + 5}));
  lines.put("overruns", {static_cast<double>(overruns)});
}

/// Rank 0 gets 2x slower at step 20 and recovers at step 50.
void disturbance_job(krama::World& world, const std::vector<double>& mix, Lines& lines) {
  const double mine = mixed_bench::seconds_per_sample(mix, static_cast<std::size_t>(world.rank()),
                                                      step_seconds(mix.size()) / 2);
  Job job{.shares = rule(train::ShareRule::model), .steps = 80};
  job.before_step = [&](std::int64_t done, krama::testing::EmulatedSpeed& speed) {
    if (world.rank() == 0) speed.slow_down(done >= 20 && done < 50 ? 2.0 : 1.0);
  };
  const Result r = mixed_bench::run_job(world, mine, std::move(job));
  auto slower = mix;
  slower[0] *= 2;
  lines.put("disturbance", {r.quiet(10, 20), r.quiet(30, 50), r.quiet(60, 80),
                            reached_after(r, 20, 50, slower), reached_after(r, 50, 80, mix)});
}

/// 500 steps with 5 % noise; the first ten may adapt.
void noise_job(krama::World& world, const std::vector<double>& mix, Lines& lines) {
  const double mine = mixed_bench::seconds_per_sample(mix, static_cast<std::size_t>(world.rank()),
                                                      step_seconds(mix.size()) / 4);
  Job job{.shares = rule(train::ShareRule::model), .steps = 10 + 500};
  job.before_step = [&](std::int64_t done, krama::testing::EmulatedSpeed& speed) {
    if (done == 10) speed.add_noise(0.05, static_cast<std::uint64_t>(17 + world.rank()));
  };
  const Result r = mixed_bench::run_job(world, mine, std::move(job));
  lines.put("noise", {static_cast<double>(r.changes_in(10, 1 << 20)), r.quiet(10, 510)});
}

int job(krama::World& world, const std::string& what, const std::string& mix_text,
        const std::string& path) {
  const auto mix = parse_mix(mix_text);
  KRAMA_EXPECTS(static_cast<int>(mix.size()) == world.size(), "{} speeds for {} ranks", mix.size(),
                world.size());
  Lines lines(world, path);
  if (what == "mix") mix_job(world, mix, lines);
  if (what == "disturbance") disturbance_job(world, mix, lines);
  if (what == "noise") noise_job(world, mix, lines);
  return 0;
}

using Table = std::vector<std::pair<std::string, std::vector<double>>>;

/// Starts a job; empty when it did not come to a good end.
Table start_job(const std::string& self, const std::string& what, const std::string& mix) {
  const std::string path = fmt::format("{}/mixed_job.txt", KRAMA_BENCH_DIR);
  Table table;
  if (!krama::bench::run_job(self, parse_mix(mix).size(),
                             fmt::format("--job {} {} '{}'", what, mix, path), path,
                             "OMP_PROC_BIND=false ")) {
    fmt::print("bench_mixed: {} {} came to no good end; see {}.log\n", what, mix, path);
    return table;
  }
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return table;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), file) != nullptr) {
    std::istringstream words(line.data());
    auto& [name, numbers] = table.emplace_back();
    words >> name;
    for (double n = 0; words >> n;) numbers.push_back(n);
  }
  std::fclose(file);
  return table;
}

/// Prints one mix; the bar is the model rule's throughput over the bound's.
bool report_mix(const std::string& self, const std::string& mix, krama::bench::Report& report) {
  const Table table = start_job(self, "mix", mix);
  if (table.empty()) return false;
  std::vector<double> solo;
  double sum = 0;
  for (const auto& [name, numbers] : table) {
    if (name != "solo") continue;
    solo.push_back(numbers[0] / static_cast<double>(batch));
    sum += 1.0 / solo.back();
  }
  const auto cost = [&](std::size_t r, std::int64_t n) { return solo[r] * static_cast<double>(n); };
  const Shares best = krama::plan::solve_shares(batch, solo.size(), {}, cost);
  const double bound = static_cast<double>(batch) / krama::plan::slowest(best, cost);
  fmt::print("{}: solo together {:.1f} samples/s; best whole shares {:.2f} % of it\n", mix, sum,
             100 * bound / sum);
  for (const auto& [name, numbers] : table) {
    if (name == "overruns" && numbers[0] > 0) {
      fmt::print("  {} steps took longer than emulated: the machine is too busy for this bench\n",
                 numbers[0]);
    }
    if (name == "solo" || name == "overruns") continue;
    const double throughput = static_cast<double>(batch) / numbers[0];
    std::string shares;
    for (std::size_t i = 4; i < numbers.size(); ++i) {
      shares += fmt::format("{}{}", shares.empty() ? "" : ":", numbers[i]);
    }
    fmt::print(
        "  {:<13} {:6.2f} % of the sum, {:6.2f} % of the bound; {} at last, within 1.5 % of the "
        "best "
        "shares after {} steps, {} changes; {:.1f} ms a step, {:.1f} of it not computing\n",
        name, 100 * throughput / sum, 100 * throughput / bound, shares, numbers[2], numbers[3],
        1e3 * numbers[0], 1e3 * numbers[1]);
    if (name == "model") {
      report.bar(fmt::format("mixed_{}_over_bound_percent", mix), 100 * throughput / bound, 98.5,
                 krama::bench::Better::higher);
      report.bar(fmt::format("mixed_{}_steps_to_adapt", mix), numbers[2], adapting);
    }
  }
  std::fflush(stdout);
  return true;
}

bool report_disturbance(const std::string& self, const std::string& mix,
                        krama::bench::Report& report) {
  const Table table = start_job(self, "disturbance", mix);
  if (table.empty()) return false;
  const auto& d = table[0].second;
  fmt::print(
      "{}, rank 0 2x slower from step 21 to 50: {:.1f} ms, {:.1f} ms, {:.1f} ms a step; "
      "re-balanced after {} steps, undone after {}\n",
      mix, 1e3 * d[0], 1e3 * d[1], 1e3 * d[2], d[3], d[4]);
  // What the slower job can do at best, of what it did before.
  double together = 0;
  for (const double s : parse_mix(mix)) together += 1.0 / s;
  const double slower = (together - 0.5 / parse_mix(mix)[0]) / together;
  report.bar(fmt::format("disturbed_{}_over_bound_percent", mix), 100 * d[0] / d[1] / slower, 97,
             krama::bench::Better::higher);
  report.bar(fmt::format("disturbed_{}_steps_to_rebalance", mix), d[3], 10);
  report.bar(fmt::format("disturbed_{}_steps_to_undo", mix), d[4], 10);
  return true;
}

bool report_noise(const std::string& self, const std::string& mix, krama::bench::Report& report) {
  const Table table = start_job(self, "noise", mix);
  if (table.empty()) return false;
  const auto& d = table[0].second;
  fmt::print("{}, 5 % noise over 500 steps: {} changes, {:.1f} ms a step\n", mix, d[0], 1e3 * d[1]);
  report.bar(fmt::format("noise_{}_changes", mix), d[0], 0);
  return true;
}

int drive(const std::string& self) {
  krama::bench::Report report("mixed");
  bool good = true;
  for (const char* mix : {"1:1", "1:2", "1:3", "1:5", "1:1:3:5"}) {
    good = report_mix(self, mix, report) && good;
  }
  for (const char* mix : {"1:1", "1:3"}) good = report_disturbance(self, mix, report) && good;
  for (const char* mix : {"1:1", "1:3"}) good = report_noise(self, mix, report) && good;
  const int code = report.finish();
  std::fflush(stdout);
  const bool border = std::system("'" KRAMA_BENCH_DIR "/bench_border'") == 0;
  return good && border ? code : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--job") {
    return krama::run(argc, argv, [](krama::World& world, int, char** words) {
      return job(world, words[2], words[3], words[4]);
    });
  }
  const std::string self = krama::bench::own_path();
  return self.empty() ? 1 : drive(self);
}
