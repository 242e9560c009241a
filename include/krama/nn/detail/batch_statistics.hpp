// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include <krama/core/collective.hpp>
#include <krama/core/dtype.hpp>
#include <krama/tensor/copy.hpp>

/// What BatchNorm does per channel, on one rank and between ranks.
namespace krama::nn::detail {

/// Mean and 1/sqrt(biased variance + epsilon) of one channel, and what the running statistics become
/// (null: nothing is committed).
template <class A>
struct BatchStatistics {
  const double* moments;  ///< (2, channels): mean, M2
  const A* running_mean;
  const A* running_var;
  A* mean;
  A* rstd;
  A* next_mean;
  A* next_var;
  std::int64_t channels;
  double count;
  double epsilon;
  double momentum;

  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    const double m2 = moments[channels + c];
    mean[c] = static_cast<A>(moments[c]);
    rstd[c] = static_cast<A>(1.0 / Kokkos::sqrt(m2 / count + epsilon));
    if (next_mean != nullptr) next_mean[c] = moved(running_mean[c], moments[c]);
    if (next_var != nullptr) next_var[c] = moved(running_var[c], m2 / (count - 1.0));
  }
  KOKKOS_FUNCTION A moved(A from, double to) const {
    return static_cast<A>((1.0 - momentum) * static_cast<double>(from) + momentum * to);
  }
};

/// The same from the running statistics.
template <class A>
struct RunningStatistics {
  const A* running_mean;
  const A* running_var;
  A* mean;
  A* rstd;
  double epsilon;
  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    mean[c] = running_mean[c];
    rstd[c] = static_cast<A>(1.0 / Kokkos::sqrt(static_cast<double>(running_var[c]) + epsilon));
  }
};

/// dx = a dy - b xhat - d with a = rstd gamma, b = a sum(dy xhat) / count, d = a sum(dy) / count;
/// count 0: statistics are constants, b and d are 0.
template <class T>
struct BatchFactors {
  using A = accum_t<T>;
  const double* sums;
  const T* gamma;
  const A* rstd;
  A* factors;
  std::int64_t channels;
  double count;

  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    const double a = static_cast<double>(rstd[c]) * static_cast<double>(static_cast<A>(gamma[c]));
    const double each = count > 0.0 ? a / count : 0.0;
    factors[c] = static_cast<A>(a);
    factors[channels + c] = static_cast<A>(each * sums[channels + c]);
    factors[2 * channels + c] = static_cast<A>(each * sums[c]);
  }
};

/// Replaces `moments` (mean, M2 of this rank's `count` values a channel) by those of all ranks.
/// Ranks are joined in rank order (Chan, Golub and LeVeque 1979) with explicit fma, so that unlike
/// executables get the same bits. Returns the count of all ranks. Waits.
template <Device D>
double join_moments(const exec_of<D>& exec, Collective& group, std::string_view what, double count,
                    Ref<double, 1, D> moments) {
  auto mine = download(exec, moments);
  const std::size_t channels = mine.size() / 2;
  mine.push_back(count);
  const auto all = group.gather(mine, what);
  std::vector<double> joined(2 * channels, 0.0);
  double total = 0.0;
  for (std::size_t at = 0; at < all.size(); at += mine.size()) {
    const double n = all[at + 2 * channels];
    if (n == 0.0) continue;
    const double share = n / (total + n);
    const double both = total * share;
    for (std::size_t c = 0; c < channels; ++c) {
      double& mean = joined[c];
      double& m2 = joined[channels + c];
      const double d = all[at + c] - mean;
      mean = std::fma(d, share, mean);
      m2 = std::fma(d * d, both, m2 + all[at + channels + c]);
    }
    total += n;
  }
  upload(exec, moments, std::span<const double>(joined));
  return total;
}

/// Replaces `sums` by the sums over ranks, in rank order. Returns the count of all ranks. Waits.
template <Device D>
double join_sums(const exec_of<D>& exec, Collective& group, std::string_view what, double count,
                 Ref<double, 1, D> sums) {
  auto values = download(exec, sums);
  values.push_back(count);
  group.sum(values, what);
  count = values.back();
  values.pop_back();
  upload(exec, sums, std::span<const double>(values));
  return count;
}

}  // namespace krama::nn::detail
