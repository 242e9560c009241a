// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Time to a validation loss across a slow border. Two ranks train a small GPT on a text
// (KRAMA_BENCH_TEXT, else a made-up one); all that they compute is computed, and the tensors that they
// exchange take as long as on a link 100 times slower than one through a host's memory. Synchronous
// training runs for a number of steps; its validation loss then is the goal, and the time when it
// first had it its time. CoCoD and DiLoCo train until they have it. In turn, some rounds; medians.
// Time spent on validation is left out for all. DiLoCo has an outer momentum of 0.3: with rounds of 16
// steps its paper's 0.9 (for 500) makes outer steps seven times the averaged one, and does not learn.
// Started by itself it is the driver that starts the job; started by mpiexec it is the job.

#include <krama/comm/emulated_links.hpp>
#include <krama/io/text.hpp>
#include <krama/models/gpt.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/runtime/run.hpp>
#include <krama/train/sources.hpp>
#include <krama/train/trainer.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/bench.hpp"
#include "support/job.hpp"

namespace {

namespace train = krama::train;
using train::LocalRule;
using train::LocalSyncOptions;

constexpr int rounds = 3;
constexpr std::int64_t sync_steps = 320;
constexpr std::int64_t most_steps = 4 * sync_steps;
constexpr std::int64_t local_steps = 16;
constexpr std::int64_t context = 64;
constexpr double slower = 100;

/// Words of a made-up language, each of which likes some words after it.
std::vector<std::uint8_t> made_up_text() {
  const auto draw = [](std::uint32_t stream, std::uint64_t i) {
    return static_cast<double>(krama::uniform({7, stream, 0}, i));
  };
  constexpr std::uint64_t words = 200;
  std::vector<std::string> all(words);
  for (std::uint64_t w = 0; w < words; ++w) {
    const auto length = 2 + static_cast<std::uint64_t>(5 * draw(1, w));
    for (std::uint64_t i = 0; i < length; ++i) {
      all[w] += static_cast<char>('a' + static_cast<int>(25.99 * draw(2, 16 * w + i)));
    }
  }
  std::vector<std::uint8_t> text;
  std::uint64_t word = 0;
  for (std::uint64_t i = 0; text.size() < 400000; ++i) {
    text.insert(text.end(), all[word].begin(), all[word].end());
    text.push_back(' ');
    const auto liked = static_cast<std::uint64_t>(4 * draw(3, i));
    word = static_cast<std::uint64_t>(static_cast<double>(words) * draw(4, 4 * word + liked));
  }
  return text;
}

struct Corpus {
  train::TextSource learned;
  train::TextSource held_out;
};
/// The last tenth is held out; the loss is of its first 64 windows.
Corpus read_corpus() {
  const char* path = std::getenv("KRAMA_BENCH_TEXT");
  const std::string name = path != nullptr ? path : "made-up text";
  auto text = path != nullptr ? krama::io::read_text(path).bytes : made_up_text();
  const auto cut = text.begin() + static_cast<std::ptrdiff_t>(text.size() / 10 * 9);
  const auto rest = static_cast<std::ptrdiff_t>(text.end() - cut);
  const std::vector<std::uint8_t> held_out(cut,
                                           cut + std::min<std::ptrdiff_t>(rest, 64 * context + 1));
  text.erase(cut, text.end());
  return {train::TextSource(text, context, name),
          train::TextSource(held_out, context, name + " (held out)")};
}

struct Point {
  double seconds = 0;  ///< of training, without validation
  std::int64_t step = 0;
  double loss = 0;
};

/// Trains until the validation loss is `goal`, or with none for `sync_steps`; a point every 16 steps.
std::vector<Point> train_until(krama::MpiComm comm, const Corpus& corpus, std::uint64_t seed,
                               const std::optional<LocalSyncOptions>& local,
                               std::optional<double> goal) {
  using D = krama::DefaultDevice;
  const krama::exec_of<D> exec;
  const auto model =
      krama::models::gpt<D, float>({.context = context, .features = 128, .layers = 2, .heads = 4});
  auto store = model.make_store(exec, seed);
  train::TrainerOptions options{
      .global_batch = 4, .steps = goal ? most_steps : sync_steps, .seed = seed};
  options.shares.fixed = {1, 1};
  options.on_shares = [](const auto&) {};
  options.fingerprint_every = 0;
  options.local = local;
  options.executor.micro_batch = 2;
  options.executor.clip_norm = 1.0;
  train::Trainer<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> trainer(
      exec, model, store, {}, {.weight_decay = 0.1}, krama::optim::Schedule::constant(1e-3, 16),
      comm, options);
  std::vector<Point> points;
  comm.barrier("training begins");
  double begin = krama::bench::seconds_now();
  double trained = 0;
  trainer.fit(corpus.learned, [&](const train::StepReport& r) {
    if (!r.is_time(local_steps)) return true;
    trained += krama::bench::seconds_now() - begin;
    points.push_back({trained, r.step, trainer.evaluate(corpus.held_out)});
    comm.barrier("validated");
    begin = krama::bench::seconds_now();
    return !goal || points.back().loss > *goal;
  });
  return points;
}

int job(krama::World& world, const std::string& path) {
  const Corpus corpus = read_corpus();
  krama::MpiOptions options;
  const krama::Link border{krama::assumed_link.latency_seconds * slower,
                           krama::assumed_link.bytes_per_second / slower};
  options.emulated = std::make_shared<krama::EmulatedLinks>(
      [border](int, int) { return krama::EmulatedLinks::Wire{border}; });
  std::FILE* file = world.rank() == 0 ? std::fopen(path.c_str(), "w") : nullptr;
  KRAMA_EXPECTS(world.rank() != 0 || file != nullptr, "cannot write \"{}\"", path);
  const auto put = [&](int which, double goal, const Point& p, double last) {
    if (file == nullptr) return;
    std::fprintf(file, "%d %.9g %.9g %lld %.9g\n", which, goal, p.seconds,
                 static_cast<long long>(p.step), last);
    std::fflush(file);
  };
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(round + 1);
    const auto comm = [&] { return world.duplicate("border", options); };
    const auto synchronous = train_until(comm(), corpus, seed, {}, {});
    const double goal = synchronous.back().loss;
    for (const Point& p : synchronous) {
      if (p.loss > goal) continue;
      put(0, goal, p, p.loss);
      break;
    }
    const std::vector<LocalSyncOptions> rules{{LocalRule::cocod, local_steps, 1.0, 0.0},
                                              {LocalRule::diloco, local_steps, 0.7, 0.3}};
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const auto points = train_until(comm(), corpus, seed, rules[i], goal);
      put(static_cast<int>(i) + 1, goal, points.back(), points.back().loss);
    }
  }
  if (file != nullptr) std::fclose(file);
  return 0;
}

int drive(const std::string& self) {
  const std::string path = fmt::format("{}/border_job.txt", KRAMA_BENCH_DIR);
  if (!krama::bench::run_job(self, 2, fmt::format("--job '{}'", path), path,
                             "OMP_PROC_BIND=false ")) {
    fmt::print("bench_border: the job came to no good end; see {}.log\n", path);
    return 1;
  }
  constexpr const char* names[] = {"synchronous", "cocod", "diloco"};
  std::vector<std::vector<double>> seconds(3);
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return 1;
  int which = 0;
  double goal = 0;
  double time = 0;
  long long step = 0;
  double loss = 0;
  bool reached = true;
  while (std::fscanf(file, "%d %lf %lf %lld %lf", &which, &goal, &time, &step, &loss) == 5 &&
         which >= 0 && which < 3) {
    seconds[static_cast<std::size_t>(which)].push_back(time);
    fmt::print("  {:<12} {:6.2f} s, {:4} steps to a validation loss of {:.4f} (has {:.4f})\n",
               names[which], time, step, goal, loss);
    if (loss > goal) {
      reached = false;
      fmt::print("  {} did not reach it\n", names[which]);
    }
  }
  std::fclose(file);
  krama::bench::Report report("border");
  for (std::size_t i = 0; i < 3; ++i) {
    if (seconds[i].size() != rounds) return 1;
  }
  for (std::size_t i = 1; i < 3; ++i) {
    report.bar(fmt::format("border_{}_times_faster", names[i]),
               krama::bench::median(seconds[0]) / krama::bench::median(seconds[i]), 3,
               krama::bench::Better::higher);
  }
  const int code = report.finish();
  return reached ? code : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--job") {
    return krama::run(argc, argv,
                      [](krama::World& world, int, char** words) { return job(world, words[2]); });
  }
  const std::string self = krama::bench::own_path();
  return self.empty() ? 1 : drive(self);
}
