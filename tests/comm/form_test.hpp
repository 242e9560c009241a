// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/comm/form.hpp>
#include <krama/comm/partition.hpp>

#include <functional>
#include <string>
#include <vector>

#include "comm/comm_test.hpp"

namespace krama::test {

/// Groups of unequal size whose ranks are interleaved: 0 1 0 1 1 0 1 1 …
inline std::vector<int> two_groups(int ranks) {
  std::vector<int> group;
  for (int r = 0; r < ranks; ++r) group.push_back(r % 5 == 0 || r == 2 ? 0 : 1);
  return group;
}
inline std::vector<int> three_groups(int ranks) {
  std::vector<int> group;
  for (int r = 0; r < ranks; ++r) group.push_back(r * 3 / ranks);
  return group;
}

inline std::vector<Form> forms(int ranks) {
  return {Form::star(), Form::ring(), Form::halving(), Form::hierarchical(two_groups(ranks)),
          Form::hierarchical(three_groups(ranks))};
}

/// The sum of everybody's values as a form orders it, calculated on one rank.
template <class A>
std::vector<A> sums_along(const Form& form, const Partition& partition, std::int64_t chunk) {
  const int n = partition.parts();
  std::vector<std::vector<A>> all;
  for (int r = 0; r < n; ++r) all.push_back(values_of<A>(r, partition.size()));
  std::vector<A> out(static_cast<std::size_t>(partition.size()));
  for (int owner = 0; owner < n; ++owner) {
    for (std::int64_t k = 0; k * chunk < partition.count(owner); ++k) {
      const auto tree = form.tree(owner, k, n);
      const std::int64_t begin = partition.begin(owner) + k * chunk;
      const std::int64_t end = std::min(begin + chunk, partition.end(owner));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::function<A(int)> sum = [&](int rank) {
          A total{};
          bool first = true;
          for (int r = 0; r < n; ++r) {
            if (r != rank && tree.parent[static_cast<std::size_t>(r)] != rank) continue;
            const A term =
                r == rank ? all[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] : sum(r);
            total = first ? term : total + term;
            first = false;
          }
          return total;
        };
        out[static_cast<std::size_t>(i)] = sum(owner);
      }
    }
  }
  return out;
}

}  // namespace krama::test
