// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/plan/step_costs.hpp>

#include <random>

namespace plan_test {

/// Blocks of very unlike sizes and speeds, a link from much slower to much faster than they need,
/// and a budget from the least that works to more than all.
inline krama::plan::StepCosts random_costs(std::mt19937& random, int n) {
  const auto u = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  krama::plan::StepCosts c;
  // Some instances in small whole numbers, where ties abound.
  const bool whole = random() % 3 == 0;
  for (int b = 0; b < n; ++b) {
    krama::plan::BlockCost k;
    k.forward = whole ? static_cast<double>(1 + random() % 3) : u(0.2, 3);
    k.backward = whole ? static_cast<double>(1 + random() % 4) : k.forward * u(1, 3);
    k.saved = whole ? static_cast<std::int64_t>(1 + random() % 6)
                    : static_cast<std::int64_t>(u(10, 1000));
    k.input = whole ? static_cast<std::int64_t>(random() % 2) % (k.saved + 1)
                    : static_cast<std::int64_t>(static_cast<double>(k.saved) * u(0, 0.6));
    c.blocks.push_back(k);
  }
  std::int64_t most = 0;
  for (const auto& b : c.blocks) most = std::max(most, b.saved);
  const auto all = c.saved_bytes();
  c.budget = most + static_cast<std::int64_t>(static_cast<double>(all - most) * u(-0.05, 1.0));
  const double traffic = u(0.3, 4) * c.in_core_seconds();
  c.link.out_bandwidth = static_cast<double>(all) / (traffic * u(0.3, 0.7));
  c.link.in_bandwidth = static_cast<double>(all) / (traffic * u(0.3, 0.7));
  c.link.latency = random() % 2 == 0 ? 0.0 : u(0, 0.2);
  return c;
}

}  // namespace plan_test
