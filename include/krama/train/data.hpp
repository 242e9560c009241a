// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/core/extents.hpp>
#include <krama/core/random.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/shares.hpp>

namespace krama::train {

/// Where samples come from: anything that can fill host memory with the samples of given numbers.
/// `fetch` checks what it hands out (labels within range) and throws with the sample's number; it is
/// called from one thread of each rank, for that rank's samples only.
template <class S>
concept DataSource =
    requires(const S s, std::span<const std::int64_t> ids, std::span<typename S::input_type> x,
             std::span<typename S::target_type> y, std::span<float> weights) {
      { s.size() } -> std::convertible_to<std::int64_t>;  // number of samples
      { s.input_shape() } -> std::convertible_to<Shape>;  // of one sample
      { s.targets_per_sample() } -> std::convertible_to<std::int64_t>;
      { s.rows_per_sample() } -> std::convertible_to<std::int64_t>;  // weights
      s.fetch(ids, x, y, weights);
    };

/// Sample order of one epoch: a shuffle that depends on (seed, epoch) only, the same on every rank
/// and for any rank count.
std::vector<std::int64_t> sample_order(std::uint64_t seed, std::uint32_t epoch,
                                       std::int64_t samples);

/// The endless sequence of epochs, one after the other. Global batch s is the samples at places
/// [s B, (s+1) B) of it, so that a resumed run continues where it stopped.
class SampleSequence {
 public:
  SampleSequence(std::uint64_t seed, std::int64_t samples) : seed_(seed), samples_(samples) {
    KRAMA_EXPECTS(samples > 0, "the data source holds no sample");
  }

  /// Numbers of the samples at places [begin, begin + count).
  std::vector<std::int64_t> ids(std::int64_t begin, std::int64_t count);

 private:
  std::uint64_t seed_;
  std::int64_t samples_;
  std::vector<std::int64_t> order_;
  std::uint32_t epoch_ = 0;
  bool made_ = false;
};

using plan::split_batch;

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE std::vector<std::int64_t> sample_order(std::uint64_t seed, std::uint32_t epoch,
                                                    std::int64_t samples) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const RandomKey key{seed, 0x5eed0001U, epoch};
  for (std::int64_t i = samples - 1; i > 0; --i) {
    const auto words = philox(key, static_cast<std::uint64_t>(i));
    const std::uint64_t r = (std::uint64_t{words[1]} << 32) | words[0];
    // The bias of the remainder is below 2^-32 for fewer than 2^32 samples.
    const auto j = static_cast<std::int64_t>(r % static_cast<std::uint64_t>(i + 1));
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

KRAMA_INLINE std::vector<std::int64_t> SampleSequence::ids(std::int64_t begin, std::int64_t count) {
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t p = begin; p < begin + count; ++p) {
    const auto epoch = static_cast<std::uint32_t>(p / samples_);
    if (!made_ || epoch != epoch_) {
      order_ = sample_order(seed_, epoch, samples_);
      epoch_ = epoch;
      made_ = true;
    }
    out.push_back(order_[static_cast<std::size_t>(p % samples_)]);
  }
  return out;
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
