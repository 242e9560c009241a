// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/core/collective.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/program/gather_numbers.hpp>

namespace krama {

/// A communicator as layers see it. The calls travel as control messages, which carry their name and
/// length: a rank that calls something else gives the same error on every rank.
template <Communicator C>
class RankGroup final : public Collective {
 public:
  explicit RankGroup(C comm) : comm_(std::move(comm)) {}

  [[nodiscard]] int size() const override { return comm_.size(); }

  std::vector<double> gather(std::span<const double> mine, std::string_view what) override {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> all;
    for (const auto& rank : gather_numbers(comm_, mine, what)) {
      KRAMA_EXPECTS(
          rank.size() == mine.size(),
          "\"{}\": a rank gives {} numbers, this one {}; the ranks train different models", what,
          rank.size(), mine.size());
      all.insert(all.end(), rank.begin(), rank.end());
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    seconds_ += passed.count();
    return all;
  }

  /// This rank cannot take part in what layers say to each other: where the others wait for it, every
  /// rank gets the same error, this one too.
  [[noreturn]] void refuse(const std::string& why) {
    static_cast<void>(
        comm_.gather_text({}, fmt::format("rank {} cannot go on: {}", comm_.rank(), why)));
    throw Error(why);  // there is only this rank
  }

  /// Spent in calls since the last time this was asked.
  double take_seconds() { return std::exchange(seconds_, 0.0); }

 private:
  C comm_;
  double seconds_ = 0;
};

/// What the ranks must know of each other before a step in which layers speak to other ranks, or in
/// which buffers are committed.
struct StepAgreement {
  int micro_batches = 0;  ///< of this rank; those of the others where it has no samples
  int buffer_source =
      0;  ///< the first rank that has samples: its buffers' next values are committed
};

/// Compares the ranks' numbers of micro-batches and the blocks that they recompute. Where
/// `meets_ranks`, all ranks with samples must have as many micro-batches, and all ranks must
/// recompute the same blocks. Collective over comm.
/// \throws Error, the same on every rank, before anything of the step is done.
template <Communicator C>
StepAgreement agree_step(C& comm, int micro_batches, const std::vector<bool>& recompute,
                         bool meets_ranks) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> all(2 * ranks, 0);
  all[rank] = micro_batches;
  std::string blocks;
  for (const bool b : recompute) blocks += b ? '1' : '0';
  const bool any = std::find(recompute.begin(), recompute.end(), true) != recompute.end();
  all[ranks + rank] = any ? static_cast<std::int64_t>(fnv1a(blocks) >> 1U) : 0;
  comm.sum(all, "micro-batches of the step");
  StepAgreement agreed{micro_batches, 0};
  std::size_t source = 0;
  while (source + 1 < ranks && all[source] == 0) ++source;
  agreed.buffer_source = static_cast<int>(source);
  if (!meets_ranks) return agreed;
  for (std::size_t r = 0; r < ranks; ++r) {
    KRAMA_EXPECTS(
        all[r] == 0 || all[r] == all[source],
        "rank {} has {} micro-batches and rank {} has {}: a model with synchronised layers "
        "(BatchNorm) needs as many on every rank that has samples; choose each rank's "
        "micro_batch so that samples / micro_batch, rounded up, is the same, or make the "
        "layers not synchronised",
        source, all[source], r, all[r]);
    KRAMA_EXPECTS(all[ranks + r] == all[ranks],
                  "rank 0 and rank {} recompute different blocks: a model with synchronised layers "
                  "(BatchNorm) must recompute the same ones on every rank",
                  r);
  }
  agreed.micro_batches = static_cast<int>(all[source]);
  return agreed;
}

}  // namespace krama
