// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/definitions.hpp>

namespace krama::train {

/// Which ranks train one replica together. Without local rounds there is one group; with them every
/// rank is its own unless groups are given.
class LocalGroups {
 public:
  /// \throws Error unless the groups are 0, 1, … and each rank has one
  LocalGroups(int ranks, bool local, std::vector<int> given);

  [[nodiscard]] int count() const { return static_cast<int>(leaders_.size()); }
  [[nodiscard]] int of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  /// The first rank of a group, which speaks for it.
  [[nodiscard]] int leader(int group) const { return leaders_[static_cast<std::size_t>(group)]; }

  /// A communicator of this rank's group; comm itself where there is one group. Collective over comm.
  template <Communicator C>
  [[nodiscard]] C split(C& comm) const {
    if (count() == 1) return comm;
    return *comm.split(of(comm.rank()), comm.rank(), "group of local rounds");
  }

 private:
  std::vector<int> of_;
  std::vector<int> leaders_;
};

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE LocalGroups::LocalGroups(int ranks, bool local, std::vector<int> given)
    : of_(std::move(given)) {
  const auto n = static_cast<std::size_t>(ranks);
  if (!local) of_.assign(n, 0);
  if (of_.empty()) {
    of_.resize(n);
    std::iota(of_.begin(), of_.end(), 0);
  }
  KRAMA_EXPECTS(of_.size() == n, "local rounds: {} groups are given for {} ranks", of_.size(), n);
  for (int g = 0, found = 0; found < ranks; ++g) {
    const auto at = static_cast<std::size_t>(found);
    int first = -1;
    for (int r = ranks - 1; r >= 0; --r) {
      if (of_[static_cast<std::size_t>(r)] != g) continue;
      first = r;
      ++found;
    }
    KRAMA_EXPECTS(first >= 0,
                  "local rounds: no rank is of group {}, though only {} of {} ranks are of those "
                  "before it; wanted groups 0, 1, …",
                  g, at, ranks);
    leaders_.push_back(first);
  }
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
