// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Trains a byte-level GPT on a text file, over all ranks of one MPI job. The ranks may be unlike:
// mpiexec -n 1 ./language_model.v3 --data FILE : -n 1 ./language_model.native --data FILE

#include <krama/comm/traffic_report.hpp>
#include <krama/io/text.hpp>
#include <krama/models/gpt.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/optim/schedule.hpp>
#include <krama/runtime/run.hpp>
#include <krama/train/checkpoint.hpp>
#include <krama/train/progress.hpp>
#include <krama/train/run_folder.hpp>
#include <krama/train/sources.hpp>
#include <krama/train/trainer.hpp>

#include <cmath>
#include <optional>

#include "device.hpp"
#include "generate.hpp"
#include "options.hpp"

namespace {

using krama::World;
namespace train = krama::train;

/// The two parts of the text: what is learned, and the last tenth.
struct Corpus {
  train::TextSource learned;
  train::TextSource held_out;
};

Corpus read_corpus(const example::Options& o) {
  const auto text = krama::io::read_text(o.data);
  const auto parts = krama::io::split(text, 0.1);
  const auto bytes = [](std::span<const std::uint8_t> s) {
    return std::vector<std::uint8_t>(s.begin(), s.end());
  };
  return {train::TextSource(bytes(parts.train), o.context, o.data),
          train::TextSource(bytes(parts.held_out), o.context, o.data + " (held out)")};
}

krama::optim::Schedule make_schedule(const example::Options& o) {
  using krama::optim::Schedule;
  if (o.schedule == "constant") return Schedule::constant(o.lr, o.warmup);
  if (o.schedule == "step")
    return Schedule::step(o.lr, std::max<std::int64_t>(1, o.steps / 3), 0.1);
  return Schedule::cosine(o.lr, o.warmup, o.steps, 0.1 * o.lr);
}

template <class T>
int train_in(World& world, const krama::Topology& topology, const example::Options& o) {
  using D = example::Device;
  const krama::exec_of<D> exec;
  const Corpus corpus = read_corpus(o);
  const auto model = krama::models::gpt<D, T>({.context = o.context,
                                               .features = o.features,
                                               .layers = o.layers,
                                               .heads = o.heads,
                                               .dropout = o.dropout});
  train::TrainerOptions options;
  // far weights begins
  std::optional<krama::TierOptions> far;
  if (o.weights_budget > 0) far = krama::TierOptions{.folder = o.scratch};
  auto store = model.make_store(exec, o.seed, far);
  options.executor.weights_budget = static_cast<std::int64_t>(o.weights_budget * 1048576.0);
  // far weights ends
  options.executor.swap.folder = o.scratch;
  options.global_batch = o.batch;
  options.steps = o.steps;
  options.stop_after = o.stop_after;
  options.time_limit = 60.0 * o.minutes;
  options.seed = o.seed;
  options.shares = train::parse_shares(o.shares, world.size());
  // local rounds begins
  if (o.local_rule != "none") {
    options.local = train::LocalSyncOptions{.rule = train::parse_local_rule(o.local_rule),
                                            .local_steps = o.local_steps,
                                            .outer_rate = o.outer_rate,
                                            .outer_momentum = o.outer_momentum};
    if (o.local_groups == "groups") options.local_groups = topology.group_numbers();
  }
  // local rounds ends
  if (!o.replay_shares.empty()) train::replay_shares(world, o.replay_shares, options.shares);
  options.executor.micro_batch = std::min(o.micro_batch, o.batch);
  options.executor.clip_norm = o.clip;
  options.executor.wire.format = krama::parse_wire_format(o.wire, "--wire");
  if (std::is_same_v<T, krama::f16>) options.executor.loss_scaling.initial = o.loss_scale;
  if (o.recompute && o.memory_budget == 0) {
    options.executor.recompute.assign(static_cast<std::size_t>(model.block_count()), true);
  }
  const bool speaks = world.rank() == 0;
  train::Progress progress(speaks, 10.0);
  train::RunFolder folder(world, o.out, o.resume);
  options.on_shares = [&](const krama::plan::ShareChange& change) {
    progress.say(change.line());
    folder.metric({{"step", change.step + 1}, {"shares", change.after}, {"reason", change.reason}});
  };
  using Trainer = train::Trainer<D, T, krama::nn::CrossEntropy, krama::optim::AdamW, World>;
  Trainer trainer(exec, model, store, {}, {.weight_decay = o.weight_decay}, make_schedule(o), world,
                  options);

  // memory budget begins
  trainer.memory_budget(static_cast<std::int64_t>(o.memory_budget * 1048576.0));
  // memory budget ends
  if (o.resume) train::load_checkpoint(exec, trainer, folder.checkpoint());
  world.barrier("trace starts");
  trainer.executor().trace().start(static_cast<std::size_t>(o.trace_steps) *
                                   trainer.executor().step_program(1).size());
  progress.say(fmt::format(
      "{}: {} bytes to learn, {} held out; {} parameters in {} blocks; activations {:.1f} MiB",
      o.data, corpus.learned.bytes(), corpus.held_out.bytes(), store.parameter_count(),
      model.block_count(), static_cast<double>(trainer.executor().memory().peak) / 1048576.0));
  if (options.local) {
    progress.say(fmt::format("rounds of {} local steps, {}: {} replicas of {} ranks", o.local_steps,
                             o.local_rule, trainer.groups().count(), world.size()));
  }
  if (world.size() > 1) {
    progress.say(describe(trainer.executor().wire().options(), store.parameter_count()));
  }
  if (o.resume) progress.say(fmt::format("resumed after step {}", trainer.steps_done()));

  train::ProgressState state;
  const double tokens = static_cast<double>(o.batch * o.context);
  double smooth_seconds = 0;
  const auto validate = [&] {
    const double loss = trainer.evaluate(corpus.held_out);
    progress.say(fmt::format("step {}: validation loss {:.4f} nats per byte ({:.3f} bits)",
                             trainer.steps_done(), loss, loss / std::log(2.0)));
    folder.metric({{"step", trainer.steps_done()}, {"validation_loss", loss}});
  };
  const auto after_step = [&](const train::StepReport& r) {
    smooth_seconds =
        smooth_seconds == 0 ? r.step_seconds : 0.9 * smooth_seconds + 0.1 * r.step_seconds;
    state.step = r.step;
    state.steps = o.steps;
    state.fraction = r.fraction;
    state.seconds = r.seconds;
    state.loss = r.outcome.loss();
    state.tokens_per_second = tokens / smooth_seconds;
    state.rank_speed.clear();
    state.rank_share.clear();
    for (std::size_t q = 0; q < r.samples.size(); ++q) {
      const auto samples = static_cast<double>(r.samples[q]);
      state.rank_share.push_back(samples / static_cast<double>(o.batch));
      state.rank_speed.push_back(r.outcome.rank_seconds[q] > 0
                                     ? samples * static_cast<double>(o.context) /
                                           r.outcome.rank_seconds[q]
                                     : 0.0);
    }
    progress.show(state, false);
    if (r.outcome.skipped) {
      progress.say(fmt::format("step {}: skipped, the gradient overflowed with a loss scale of {}",
                               r.step, r.outcome.loss_scale));
    }
    folder.metric({{"step", r.step},
                   {"steps", r.steps},
                   {"loss", r.outcome.loss()},
                   {"gradient_norm", r.outcome.grad_norm},
                   {"learning_rate", r.learning_rate},
                   {"tokens_per_second", tokens / r.step_seconds},
                   {"loss_scale", r.outcome.loss_scale},
                   {"seconds", r.seconds}});
    if (r.is_time(o.eval_every)) validate();
    return true;
  };
  trainer.fit(corpus.learned, after_step);
  state.fraction = 1.0;
  progress.show(state, true);

  train::save_checkpoint(exec, trainer, folder.checkpoint());
  validate();
  folder.write_trace(world, trainer.executor().trace());
  // traffic begins
  const auto traffic = krama::gather_traffic(trainer.comm(), topology);
  progress.say(describe(traffic, topology));
  // traffic ends
  if (speaks && o.generate > 0) {
    const std::string text = example::generate<T>(exec, trainer.executor(), o.context, o.prompt,
                                                  o.generate, o.temperature, o.seed);
    progress.say(
        fmt::format("---- generated ----\n{}\n-------------------", example::printable(text)));
  }
  progress.say(fmt::format("run folder: {} (metrics.jsonl, trace.json, {})", o.out,
                           folder.checkpoint().filename().string()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](krama::RunContext& context) {
    World& world = context.world;
    const auto options = example::parse_options(context.argc, context.argv, world.rank());
    if (!options) return 0;
    const krama::Topology& topology = context.topology;
    const example::DeviceWork work;
    if (options->precision == "f32") return train_in<float>(world, topology, *options);
    KRAMA_EXPECTS(example::every_precision, "--precision {}: this executable has f32 only",
                  options->precision);
    if constexpr (example::every_precision) {
      if (options->precision == "f64") return train_in<double>(world, topology, *options);
      if (options->precision == "bf16") return train_in<krama::bf16>(world, topology, *options);
      if (options->precision == "f16") return train_in<krama::f16>(world, topology, *options);
    }
    return 1;
  });
}
