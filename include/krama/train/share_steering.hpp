// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/plan/model_shares.hpp>
#include <krama/plan/proportional_shares.hpp>
#include <krama/plan/share_controller.hpp>
#include <krama/plan/shares.hpp>
#include <krama/train/share_log.hpp>
#include <krama/train/share_options.hpp>

namespace krama::train {

/// The shares of a running job. Rank 0 decides, from every rank's times, which all ranks exchange in
/// a step's second agreement anyway; it announces a change in the next step's first agreement, and all
/// ranks follow. Nothing is sent for the shares' sake otherwise. One rank decides because executables
/// that round differently could decide differently from the same numbers.
class ShareSteering {
 public:
  /// The same on every rank. \throws Error when the options cannot be kept.
  ShareSteering(std::int64_t batch, int ranks, int rank, ShareOptions options);

  [[nodiscard]] const plan::Shares& shares() const { return shares_; }
  /// Everything since the first step, with the steps before a resumed checkpoint. Reasons of changes
  /// are known to rank 0.
  [[nodiscard]] const ShareLog& log() const { return log_; }
  [[nodiscard]] bool follows_speed() const { return options_.fixed.empty(); }

  /// What rank 0 adds to the first agreement of step `step`: new shares, or nothing.
  [[nodiscard]] std::vector<double> announcement(std::int64_t step);

  /// Takes over what rank 0 has announced. True when the shares are other ones from this step on.
  bool hear(std::int64_t step, std::span<const double> announced);

  /// Learns from a step with the current shares.
  void after_step(std::span<const double> rank_seconds) {
    if (decides_ && controller_) pending_ = controller_->after_step(rank_seconds);
  }

  /// Goes on with a checkpoint's log at step `step`: with its last shares where they follow speed and
  /// fit this job, otherwise with those this job began with. The same on every rank.
  void resume(std::int64_t step, ShareLog log);

  /// The line for the beginning of a run at step `step`.
  [[nodiscard]] plan::ShareChange beginning(std::int64_t step) const;

 private:
  void start(plan::Shares shares, const std::string& reason);
  void make_controller(const plan::Shares& from);
  [[nodiscard]] bool keeps_limits(const plan::Shares& s) const;

  ShareOptions options_;
  bool decides_;
  plan::Shares shares_;
  ShareLog log_;
  std::unique_ptr<plan::ShareController> controller_;
  std::optional<plan::ShareProposal> pending_;
};

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE ShareSteering::ShareSteering(std::int64_t batch, int ranks, int rank,
                                          ShareOptions options)
    : options_(std::move(options)), decides_(rank == 0) {
  const auto n = static_cast<std::size_t>(ranks);
  if (!options_.fixed.empty()) {
    KRAMA_EXPECTS(options_.fixed.size() == n, "{} shares are given for {} ranks",
                  options_.fixed.size(), ranks);
    start(plan::split_batch(batch, options_.fixed), "as given");
  } else {
    if (options_.limits.minimum.empty() && batch >= ranks) options_.limits.minimum.assign(n, 1);
    start(plan::equal_shares(batch, n, options_.limits),
          ranks == 1 ? "one rank" : "equal, until speeds are measured");
  }
  if (!options_.replay.empty()) {
    const plan::Shares* first = options_.replay.at(0);
    KRAMA_EXPECTS(first != nullptr && first->size() == n,
                  "the share log to replay is of {} ranks, this job has {}",
                  first == nullptr ? 0 : first->size(), ranks);
    for (const auto& c : options_.replay.changes()) {
      std::int64_t sum = 0;
      for (const auto s : c.after) sum += s;
      KRAMA_EXPECTS(sum == batch && c.after.size() == n,
                    "the share log to replay shares out {} samples over {} ranks at step {}, this "
                    "job has {} and {}",
                    sum, c.after.size(), c.step, batch, ranks);
    }
    start(*first, "replayed");
  }
}

KRAMA_INLINE std::vector<double> ShareSteering::announcement(std::int64_t step) {
  if (!decides_) return {};
  if (step < options_.replay_until) {
    const plan::Shares* then = options_.replay.at(step);
    pending_.reset();
    if (then != nullptr && *then != shares_) {
      pending_ = plan::ShareProposal{*then, "replayed"};
    }
  }
  if (!pending_) return {};
  return {pending_->shares.begin(), pending_->shares.end()};
}

KRAMA_INLINE bool ShareSteering::hear(std::int64_t step, std::span<const double> announced) {
  if (announced.empty()) return false;
  plan::Shares next;
  for (const double s : announced) next.push_back(static_cast<std::int64_t>(s));
  log_.add({step, shares_, next, pending_ ? pending_->reason : "as rank 0 decided"});
  pending_.reset();
  if (controller_ && controller_->shares() != next) make_controller(next);
  shares_ = std::move(next);
  return true;
}

KRAMA_INLINE void ShareSteering::resume(std::int64_t step, ShareLog log) {
  const std::string reason = log_.changes().back().reason;
  const plan::Shares last = log.at(step) == nullptr ? plan::Shares{} : *log.at(step);
  if (follows_speed() && keeps_limits(last)) start(last, "as in the checkpoint");
  log_ = std::move(log);
  if (last != shares_) log_.add({step, last, shares_, reason});
}

KRAMA_INLINE plan::ShareChange ShareSteering::beginning(std::int64_t step) const {
  const auto& last = log_.changes().back();
  return {step, {}, shares_, last.step == step ? last.reason : "as in the checkpoint"};
}

KRAMA_INLINE void ShareSteering::start(plan::Shares shares, const std::string& reason) {
  shares_ = std::move(shares);
  log_ = {};
  log_.add({0, {}, shares_, reason});
  make_controller(shares_);
}

KRAMA_INLINE void ShareSteering::make_controller(const plan::Shares& from) {
  if (!follows_speed()) {
    controller_ = std::make_unique<plan::FixedShares>(from, options_.limits);
  } else if (options_.rule == ShareRule::proportional) {
    controller_ =
        std::make_unique<plan::ProportionalShares>(from, options_.limits, options_.proportional);
  } else {
    controller_ = std::make_unique<plan::ModelShares>(from, options_.limits, options_.model);
  }
}

KRAMA_INLINE bool ShareSteering::keeps_limits(const plan::Shares& s) const {
  if (s.size() != shares_.size()) return false;
  for (std::size_t r = 0; r < s.size(); ++r) {
    if (!options_.limits.allow(r, s[r])) return false;
  }
  return true;
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
