// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/shares.hpp>
#include <krama/program/executor.hpp>
#include <krama/program/gather_numbers.hpp>
#include <krama/train/local_options.hpp>
#include <krama/train/share_options.hpp>

namespace krama::train {

/// Whether there is a multiple of `every` in (before, after]; false for an `every` of 0.
constexpr bool passes(std::int64_t before, std::int64_t after, std::int64_t every) {
  return every > 0 && before / every != after / every;
}

struct TrainerOptions {
  std::int64_t global_batch = 32;  ///< samples a step over all ranks
  std::int64_t steps = 0;          ///< where training ends; 0: only the time limit ends it
  std::int64_t stop_after = 0;     ///< stop before step `stop_after`, as if interrupted; 0: do not
  double time_limit = 0;           ///< seconds of this call; 0: none
  std::uint64_t seed = 1;
  ShareOptions shares = {};  ///< of the batch; default: they follow the ranks' speeds
  /// Called on rank 0 when a run of several ranks begins and when its shares change; by default a
  /// line is printed (unless KRAMA_QUIET=1).
  std::function<void(const plan::ShareChange&)> on_shares = {};
  /// Bytes that this rank has for optimizer state. Where every rank says so, state is cut by memory:
  /// half the memory holds half the state. 0: no limit; such a rank counts as the largest.
  std::int64_t state_bytes = 0;
  std::int64_t fingerprint_every = 100;  ///< steps between comparisons of the replicas; 0: never
  /// Rounds of local steps instead of a sum of gradients in every step, for slow borders.
  std::optional<LocalSyncOptions> local = {};
  /// With `local`: ranks with the same number train one replica together, step by step. The group of
  /// each rank, 0, 1, …; empty: each rank is its own. Topology::group_numbers() groups by vendor.
  std::vector<int> local_groups = {};
  ExecutorOptions executor = {};
};

/// What callbacks see after a step, or with local rounds after each round; the same numbers on every
/// rank, except for the times.
struct StepReport {
  std::int64_t step = 0;   ///< steps done so far, in all calls
  std::int64_t steps = 1;  ///< that this is about: those of a round
  StepOutcome outcome;     ///< of all ranks; of a round see LocalRounds::run
  double learning_rate = 0;
  double step_seconds = 0;  ///< of a round's steps in the mean
  double seconds = 0;       ///< since this call of fit began
  double fraction = 0;      ///< of the job that is done
  plan::Shares samples;     ///< of each rank in this step
  /// Whether a multiple of `every` steps has been done since the last report; false for 0.
  [[nodiscard]] bool is_time(std::int64_t every) const { return passes(step - steps, step, every); }
};

namespace detail {

/// The global batch, once the options make sense.
std::int64_t checked_batch(const TrainerOptions& options);
/// The executor's options, with optimizer state cut by what the ranks have. Collective over comm.
template <class Comm>
ExecutorOptions with_state_by_memory(Comm& comm, const TrainerOptions& options) {
  ExecutorOptions o = options.executor;
  KRAMA_EXPECTS(options.state_bytes >= 0, "the memory for optimizer state is {} bytes",
                options.state_bytes);
  const std::array<double, 1> mine{static_cast<double>(options.state_bytes)};
  const auto all = gather_numbers(comm, mine, "memory for optimizer state");
  double largest = 0;
  for (const auto& rank : all) largest = std::max(largest, rank[0]);
  if (largest == 0 || !o.owner_weights.empty()) return o;
  for (const auto& rank : all) {
    const bool limited = rank[0] > 0;
    o.owner_weights.push_back(limited ? rank[0] : largest);
    o.owner_bytes.push_back(limited ? static_cast<std::int64_t>(rank[0])
                                    : std::numeric_limits<std::int64_t>::max());
  }
  return o;
}

}  // namespace detail

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train::detail {

KRAMA_INLINE std::int64_t checked_batch(const TrainerOptions& options) {
  KRAMA_EXPECTS(options.global_batch > 0, "the global batch must be positive, not {}",
                options.global_batch);
  KRAMA_EXPECTS(options.steps > 0 || options.time_limit > 0 || options.stop_after > 0,
                "give a number of steps or a time limit");
  KRAMA_EXPECTS(options.local || options.local_groups.empty(),
                "groups of ranks are given, but no rounds of local steps between them");
  if (options.local) check_local_options(*options.local);
  return options.global_batch;
}

}  // namespace krama::train::detail

#endif  // KRAMA_DEFINITIONS
