// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <krama/comm/wire_format.hpp>
#include <krama/core/error.hpp>

namespace example {

/// Everything that can be said on the command line.
struct Options {
  std::string data;
  std::string out = "runs/language_model";
  std::int64_t layers = 4;
  std::int64_t features = 128;
  std::int64_t heads = 4;
  std::int64_t context = 128;
  double dropout = 0.0;
  std::int64_t batch = 8;
  std::int64_t micro_batch = 16;
  double lr = 2e-3;
  std::string schedule = "cosine";
  std::int64_t warmup = -1;
  double weight_decay = 0.1;
  double clip = 1.0;
  std::int64_t steps = 0;
  double minutes = 0;
  std::int64_t stop_after = 0;
  bool resume = false;
  bool recompute = false;
  double memory_budget = 0;
  double weights_budget = 0;
  std::string scratch;
  std::uint64_t seed = 1;
  std::string precision = "f32";
  double loss_scale = 1024;
  std::string shares = "auto";
  std::string replay_shares;
  std::string local_rule = "none";
  std::int64_t local_steps = 16;
  std::string local_groups = "each";
  double outer_rate = -1;
  double outer_momentum = -1;
  std::string wire{krama::name_of(krama::default_wire_format())};
  std::int64_t eval_every = 0;
  std::int64_t generate = 400;
  std::string prompt = "The ";
  double temperature = 0.8;
  std::int64_t trace_steps = 20;
};

/// Reads the command line. Nothing: help was wanted, and rank 0 has printed it.
/// \throws krama::Error, the same on every rank, for anything that makes no sense.
inline std::optional<Options> parse_options(int argc, char** argv, int rank) {
  Options o;
  CLI::App app{
      "Trains a byte-level GPT on a text file, over all ranks of one MPI job.\n"
      "Every rank may be another executable: mpiexec -n 1 ./a OPTIONS : -n 1 ./b OPTIONS"};
  app.get_formatter()->column_width(36);
  // A later word wins, so that a script's defaults can be overridden behind them.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

  auto* data = "Data and output";
  app.add_option("--data", o.data, "Text file to learn; its last 10 % are held out")
      ->required()
      ->group(data);
  app.add_option("--out", o.out, "Run folder: metrics.jsonl, trace.json, checkpoint.safetensors")
      ->capture_default_str()
      ->group(data);
  app.add_flag("--resume", o.resume, "Go on from the checkpoint in the run folder")->group(data);
  app.add_option("--trace-steps", o.trace_steps, "Steps to record in trace.json; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(data);

  auto* model = "Model";
  const auto positive = CLI::PositiveNumber;
  app.add_option("--layers", o.layers, "Transformer blocks")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(model);
  app.add_option("--features", o.features, "Width of the residual stream")
      ->capture_default_str()
      ->check(positive)
      ->group(model);
  app.add_option("--heads", o.heads, "Attention heads; must divide the features")
      ->capture_default_str()
      ->check(positive)
      ->group(model);
  app.add_option("--context", o.context, "Bytes that the model sees at once")
      ->capture_default_str()
      ->check(positive)
      ->group(model);
  app.add_option("--dropout", o.dropout, "Rate, 0 to below 1")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.99))
      ->group(model);
  app.add_option("--precision", o.precision, "Type of activations: f32, f64, bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f64", "bf16", "f16"}))
      ->group(model);
  app.add_option("--loss-scale", o.loss_scale,
                 "With f16: first scale of the loss, a power of two, then dynamic; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(model);

  auto* training = "Training";
  app.add_option("--batch", o.batch, "Samples a step over all ranks")
      ->capture_default_str()
      ->check(positive)
      ->group(training);
  app.add_option("--micro-batch", o.micro_batch, "Samples at once on a rank, at most")
      ->capture_default_str()
      ->check(positive)
      ->group(training);
  app.add_option("--shares", o.shares,
                 "Of the batch: auto follows the ranks' speeds (or proportional, by another rule); "
                 "equal, or a number a rank, 3:1, stay")
      ->capture_default_str()
      ->group(training);
  app.add_option("--replay-shares", o.replay_shares,
                 "Share out every batch as the run that wrote this checkpoint did")
      ->group(training);
  app.add_option(
         "--wire", o.wire,
         "How gradients travel between ranks: f32, or bf16, f16 or int8 with error feedback; "
         "default: KRAMA_WIRE, else f32")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "int8"}))
      ->group(training);
  app.add_option("--lr", o.lr, "Learning rate, the highest")
      ->capture_default_str()
      ->check(positive)
      ->group(training);
  app.add_option("--schedule", o.schedule, "constant, cosine (with warm-up) or step")
      ->capture_default_str()
      ->check(CLI::IsMember({"constant", "cosine", "step"}))
      ->group(training);
  app.add_option("--warmup", o.warmup, "Steps of warm-up; default: 50, at most a tenth of --steps")
      ->check(CLI::NonNegativeNumber)
      ->group(training);
  app.add_option("--weight-decay", o.weight_decay, "Decoupled, for matrices only")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(training);
  app.add_option("--clip", o.clip, "Largest norm of the gradient; 0: no clipping")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(training);
  app.add_flag("--recompute", o.recompute,
               "Recompute the blocks in backward instead of keeping them")
      ->group(training);
  app.add_option(
         "--memory-budget", o.memory_budget,
         "MiB of each rank for what a step computes: blocks are swapped and recomputed as a "
         "measured plan says; 0: everything is kept")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(training);
  app.add_option("--weights-budget", o.weights_budget,
                 "MiB of this rank for weights and gradients, which then lie in far memory as do "
                 "moments, and pass through; 0: all lie in near memory")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(training);
  app.add_option("--scratch", o.scratch,
                 "Folder for what is swapped or lies in far memory; default: the machine's memory")
      ->group(training);
  app.add_option("--seed", o.seed, "Of weights, sample order and dropout")
      ->capture_default_str()
      ->group(training);

  auto* local = "Rounds of local steps, for slow borders";
  app.add_option(
         "--local-rule", o.local_rule,
         "none: gradients are summed in every step; else each rank trains for a round of "
         "steps, then replicas are averaged: blocking, cocod (the average travels while the "
         "next round is computed), or diloco (with an outer optimizer)")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "blocking", "cocod", "diloco"}))
      ->group(local);
  auto* local_steps = app.add_option("--local-steps", o.local_steps, "Of a round")
                          ->capture_default_str()
                          ->check(positive)
                          ->group(local);
  auto* local_groups =
      app.add_option("--local-groups", o.local_groups,
                     "each: every rank is its own; groups: those of the table at the start (a "
                     "vendor's ranks, or KRAMA_GROUP's) sum gradients in every step")
          ->capture_default_str()
          ->check(CLI::IsMember({"each", "groups"}))
          ->group(local);
  auto* outer_rate =
      app.add_option("--outer-rate", o.outer_rate, "Of diloco's outer optimizer; default: 0.7")
          ->check(positive)
          ->group(local);
  auto* outer_momentum =
      app.add_option("--outer-momentum", o.outer_momentum,
                     "Of diloco's outer optimizer; default: 0.3; its paper has 0.9, "
                     "for rounds of 500 steps")
          ->check(CLI::Range(0.0, 0.999))
          ->group(local);

  auto* end = "How long";
  app.add_option("--steps", o.steps, "Steps in all; 0: only the time ends training")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(end);
  app.add_option("--minutes", o.minutes, "Time limit of this run; 0: none (2.8 without --steps)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(end);
  app.add_option("--stop-after", o.stop_after, "Stop here as if interrupted; --resume goes on")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(end);

  auto* report = "Evaluation";
  app.add_option("--eval-every", o.eval_every, "Steps between validations; 0: at the end only")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(report);
  app.add_option("--generate", o.generate, "Bytes of text to write at the end")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(report);
  app.add_option("--prompt", o.prompt, "Beginning of that text")
      ->capture_default_str()
      ->group(report);
  app.add_option("--temperature", o.temperature, "Of sampling; 0 takes the likeliest byte")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(report);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (rank == 0) std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    throw krama::Error(std::string(e.what()) + "; --help lists the options");
  }
  for (const auto* option : {local_steps, local_groups, outer_rate, outer_momentum}) {
    KRAMA_EXPECTS(option->count() == 0 || o.local_rule != "none",
                  "{} without rounds of local steps; give --local-rule, too", option->get_name());
  }
  for (const auto* option : {outer_rate, outer_momentum}) {
    KRAMA_EXPECTS(option->count() == 0 || o.local_rule == "diloco",
                  "{} is of --local-rule diloco, which has an outer optimizer; found {}",
                  option->get_name(), o.local_rule);
  }
  if (o.outer_rate < 0) o.outer_rate = o.local_rule == "diloco" ? 0.7 : 1.0;
  if (o.outer_momentum < 0) o.outer_momentum = o.local_rule == "diloco" ? 0.3 : 0.0;
  if (o.warmup < 0) o.warmup = o.steps > 0 ? std::min<std::int64_t>(50, o.steps / 10) : 50;
  if (o.steps == 0 && o.minutes == 0 && o.stop_after == 0) o.minutes = 2.8;
  KRAMA_EXPECTS(o.features % o.heads == 0, "--features {} cannot be divided among --heads {}",
                o.features, o.heads);
  return o;
}

}  // namespace example
