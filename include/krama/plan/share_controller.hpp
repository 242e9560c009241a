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
#include <krama/plan/shares.hpp>
#include <krama/plan/solve_shares.hpp>

namespace krama::plan {

/// New shares and why.
struct ShareProposal {
  Shares shares;
  std::string reason;
};

/// Decides how a fixed global batch is shared out, from the times of past steps. Knows no ranks but
/// by number and talks to nobody: one rank decides and tells the others (see train::ShareSteering).
class ShareController {
 public:
  /// Begins with shares `start`. \throws Error when they do not keep the limits.
  explicit ShareController(Shares start, ShareLimits limits = {});
  ShareController(const ShareController&) = delete;
  ShareController& operator=(const ShareController&) = delete;
  virtual ~ShareController() = default;

  /// Learns from one step with the current shares: the seconds that each rank spent on its samples,
  /// without waiting for others. Gives new shares, or nothing when they stay as they are.
  std::optional<ShareProposal> after_step(std::span<const double> seconds);

  [[nodiscard]] const Shares& shares() const { return shares_; }
  [[nodiscard]] const ShareLimits& limits() const { return limits_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::size_t ranks() const { return shares_.size(); }

 protected:
  /// What the rule wants, given one more step.
  virtual std::optional<ShareProposal> propose(std::span<const double> seconds) = 0;

 private:
  ShareLimits limits_;
  Shares shares_;
  std::int64_t batch_ = 0;
};

/// Shares that somebody chose; they stay.
class FixedShares final : public ShareController {
 public:
  using ShareController::ShareController;

 protected:
  std::optional<ShareProposal> propose(std::span<const double> /*seconds*/) override {
    return std::nullopt;
  }
};

/// Shares as equal as the limits allow.
Shares equal_shares(std::int64_t batch, std::size_t ranks, const ShareLimits& limits);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE ShareController::ShareController(Shares start, ShareLimits limits)
    : limits_(std::move(limits)), shares_(std::move(start)) {
  for (const auto n : shares_) batch_ += n;
  check_limits(batch_, shares_.size(), limits_);
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    KRAMA_EXPECTS(limits_.allow(r, shares_[r]),
                  "shares: rank {} gets {} samples; it must take {} to {}", r, shares_[r],
                  limits_.least(r), limits_.most(r));
  }
}

KRAMA_INLINE std::optional<ShareProposal> ShareController::after_step(
    std::span<const double> seconds) {
  KRAMA_EXPECTS(seconds.size() == shares_.size(), "shares: times of {} ranks, of {}",
                seconds.size(), shares_.size());
  auto proposal = propose(seconds);
  if (!proposal || proposal->shares == shares_) return std::nullopt;
  shares_ = proposal->shares;
  return proposal;
}

KRAMA_INLINE Shares equal_shares(std::int64_t batch, std::size_t ranks, const ShareLimits& limits) {
  // Minima of some are made up for by the others: the one with the least gets the next.
  return solve_shares(batch, ranks, limits, [](std::size_t, std::int64_t samples) {
    return static_cast<double>(samples);
  });
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
