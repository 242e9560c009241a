// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

/// Loops within a team, for functors started with `launch_policy`. Work of a team's threads is not
/// ordered by leaving a `team_for`; a barrier is.
namespace krama::kokkos_ext {

template <class Member, class F>
KOKKOS_FORCEINLINE_FUNCTION void team_for(const Member& team, std::int64_t n, const F& f) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, n), f);
}

/// Sum of f(i) for i in [0, n), the same on every thread of the team.
template <class A, class Member, class F>
KOKKOS_FORCEINLINE_FUNCTION A team_sum(const Member& team, std::int64_t n, const F& f) {
  A sum{0};
  Kokkos::parallel_reduce(
      Kokkos::TeamThreadRange(team, n), [&](std::int64_t i, A& part) { part += f(i); }, sum);
  return sum;
}

/// Largest f(i) for i in [0, n), n > 0, the same on every thread of the team.
template <class A, class Member, class F>
KOKKOS_FORCEINLINE_FUNCTION A team_max(const Member& team, std::int64_t n, const F& f) {
  A top{0};
  Kokkos::parallel_reduce(
      Kokkos::TeamThreadRange(team, n),
      [&](std::int64_t i, A& best) {
        const A v = f(i);
        if (v > best) best = v;
      },
      Kokkos::Max<A>(top));
  return top;
}

}  // namespace krama::kokkos_ext
