// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <span>
#include <string>
#include <vector>

#include <krama/comm/wire_encoding.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/buckets.hpp>

namespace krama {

/// How sums of gradients travel to their owners. The same on every rank.
struct WireOptions {
  WireFormat format = default_wire_format();
  /// What rounding drops in one step is sent with the next, at the price of one f32 a parameter in the
  /// host's memory. Without it, gradients smaller than the rounding may never be learnt from.
  bool feedback = true;
};

/// The wire format of a training job on one rank, with the residuals of error feedback from step to
/// step. Residuals are in the unit of what is sent: weighted sums of gradients, times the scale of
/// the loss. They are zeros at first, after a step that updated nothing (not finite, without samples,
/// failed), when the scale of the loss has changed, and in a run that goes on from a checkpoint, which
/// does not hold them. A change of form or of the batch's shares leaves them: a rank sends every element
/// that it does not own once, whatever the form.
class GradientWire {
 public:
  GradientWire() = default;
  /// For gradients of `elements` parameters; `rank`: of `ranks`. One rank sends nothing.
  GradientWire(const WireOptions& options, std::int64_t elements, int rank, int ranks);

  /// `learns`: the gradients will be used by an update. Others leave the residuals alone.
  void begin_step(std::uint64_t seed, std::uint32_t step, double loss_scale, bool learns);
  void end_step(bool updates) { clean_ = updates; }

  /// Of a bucket of parameters.
  [[nodiscard]] WireEncoding encoding(const plan::Bucket& bucket);

  [[nodiscard]] const WireOptions& options() const { return options_; }
  /// By parameter; empty without feedback. Valid between steps.
  [[nodiscard]] std::span<const float> residual() const { return residual_; }

 private:
  /// Ranks take the streams of random numbers from this one on.
  static constexpr std::uint32_t stream = 0x3173e000U;

  WireOptions options_;
  int rank_ = 0;
  std::vector<float> residual_;
  RandomKey key_;
  double loss_scale_ = 1;
  bool learns_ = false;
  bool clean_ = false;  ///< the last step that learns has updated
};

/// For people: "gradients travel as bf16, with error feedback (1.5 MiB a rank)".
std::string describe(const WireOptions& options, std::int64_t parameters);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE GradientWire::GradientWire(const WireOptions& options, std::int64_t elements, int rank,
                                        int ranks)
    : options_(options), rank_(rank) {
  if (options.format != WireFormat::f32 && options.feedback && ranks > 1) {
    residual_.assign(static_cast<std::size_t>(elements), 0.0F);
  }
}

KRAMA_INLINE void GradientWire::begin_step(std::uint64_t seed, std::uint32_t step,
                                           double loss_scale, bool learns) {
  key_ = {seed, stream + static_cast<std::uint32_t>(rank_), step};
  learns_ = learns;
  if (!learns) return;
  if (!clean_ || loss_scale != loss_scale_) {
    std::fill(residual_.begin(), residual_.end(), 0.0F);
  }
  loss_scale_ = loss_scale;
  clean_ = false;
}

KRAMA_INLINE WireEncoding GradientWire::encoding(const plan::Bucket& bucket) {
  WireEncoding e{options_.format, {}, key_, static_cast<std::uint64_t>(bucket.begin)};
  if (learns_ && !residual_.empty()) {
    e.residual = std::span(residual_).subspan(static_cast<std::size_t>(bucket.begin),
                                              static_cast<std::size_t>(bucket.size()));
  }
  return e;
}

KRAMA_INLINE std::string describe(const WireOptions& options, std::int64_t parameters) {
  std::string text = fmt::format("gradients travel as {}", name_of(options.format));
  if (options.format == WireFormat::f32) return text;
  if (!options.feedback) return text + ", without error feedback";
  return text + fmt::format(", with error feedback ({:.1f} MiB of each rank's host memory)",
                            static_cast<double>(4 * parameters) / 1048576.0);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
