// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/attention_args.hpp>
#include <krama/kokkos_ext/team.hpp>

/// Causal attention for any execution space: a team for each query (forward, dQ) or key (dK, dV).
/// Plain rather than fast: every team reads keys and values from the caches. Work memory holds
/// queries (scaled), keys and values as accumulators, turned, then their gradients; and each row's
/// rowsum(P dP).
namespace krama::kernels::detail {

/// Elements of work memory.
inline std::int64_t attention_portable_work(const AttentionSizes& s) {
  return s.batch * s.time * (2 * s.row_in() + s.heads);
}

/// Copies one head's features of one row to work memory, queries and keys turned.
template <class T>
struct AttentionTurn {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t parts = g.s.heads + 2 * g.s.kv_heads;
    const std::int64_t row = i / parts;
    const std::int64_t part = i % parts;
    const std::int64_t at = row * g.s.row_in() + part * g.s.features;
    const bool query = part < g.s.heads;
    const bool value = part >= g.s.heads + g.s.kv_heads;
    rope_row(value ? RopeStyle::none : g.s.rope, g.qkv + at, g.work + at, g.s.features,
             g.angles(row % g.s.time), query ? g.scale() : A{1}, A{1});
  }
};
/// Turns the gradients back and writes them to dqkv.
template <class T>
struct AttentionTurnBack {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  const A* grads;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t parts = g.s.heads + 2 * g.s.kv_heads;
    const std::int64_t row = i / parts;
    const std::int64_t part = i % parts;
    const std::int64_t at = row * g.s.row_in() + part * g.s.features;
    const bool query = part < g.s.heads;
    const bool value = part >= g.s.heads + g.s.kv_heads;
    rope_row(value ? RopeStyle::none : g.s.rope, grads + at, g.dqkv + at, g.s.features,
             g.angles(row % g.s.time), query ? g.scale() : A{1}, A{-1});
  }
};

template <class X, class Y, class A>
KOKKOS_INLINE_FUNCTION A dot(const X* x, const Y* y, std::int64_t n, A /*type of the sum*/) {
  A sum{0};
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<A>(x[i]) * static_cast<A>(y[i]);
  return sum;
}

template <class T>
struct AttentionForwardTeam {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  int level;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t rank = team.league_rank();
    const std::int64_t i = rank % g.s.time;
    const std::int64_t head = rank / g.s.time % g.s.heads;
    const std::int64_t b = rank / g.s.time / g.s.heads;
    const std::int64_t kv = head / g.s.group();
    const std::int64_t nf = g.s.features;
    A* p = static_cast<A*>(
        team.team_scratch(level).get_shmem(static_cast<std::size_t>(g.s.time) * sizeof(A)));
    const A* q = g.work + g.in(b, i) + g.q_at(head);
    const A top = kokkos_ext::team_max<A>(team, i + 1, [&](std::int64_t j) {
      p[j] = dot(q, g.work + g.in(b, j) + g.k_at(kv), nf, A{0});
      return p[j];
    });
    team.team_barrier();
    const A sum = kokkos_ext::team_sum<A>(team, i + 1, [&](std::int64_t j) {
      p[j] = exp_nonpositive(p[j] - top);
      return p[j];
    });
    team.team_barrier();
    kokkos_ext::team_for(team, nf, [&](std::int64_t f) {
      A o{0};
      for (std::int64_t j = 0; j <= i; ++j) o += p[j] * g.work[g.in(b, j) + g.v_at(kv) + f];
      g.y[g.out(b, i, head) + f] = static_cast<T>(o / sum);
    });
    Kokkos::single(Kokkos::PerTeam(team), [&]() { g.lse[g.lse_at(b, head, i)] = top + log(sum); });
  }
};

/// dQ, and delta = rowsum(P dP) for the keys' teams.
template <class T>
struct AttentionQueryTeam {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  A* grads;
  A* delta;
  int level;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t rank = team.league_rank();
    const std::int64_t i = rank % g.s.time;
    const std::int64_t head = rank / g.s.time % g.s.heads;
    const std::int64_t b = rank / g.s.time / g.s.heads;
    const std::int64_t kv = head / g.s.group();
    const std::int64_t nf = g.s.features;
    const auto bytes = static_cast<std::size_t>(g.s.time) * sizeof(A);
    A* p = static_cast<A*>(team.team_scratch(level).get_shmem(bytes));
    A* dp = static_cast<A*>(team.team_scratch(level).get_shmem(bytes));
    const A* q = g.work + g.in(b, i) + g.q_at(head);
    const T* d = g.dy + g.out(b, i, head);
    const A lse = g.lse[g.lse_at(b, head, i)];
    const A sum = kokkos_ext::team_sum<A>(team, i + 1, [&](std::int64_t j) {
      const A* row = g.work + g.in(b, j);
      p[j] = exp_nonpositive(dot(q, row + g.k_at(kv), nf, A{0}) - lse);
      dp[j] = dot(d, row + g.v_at(kv), nf, A{0});
      return p[j] * dp[j];
    });
    team.team_barrier();
    kokkos_ext::team_for(team, nf, [&](std::int64_t f) {
      A o{0};
      for (std::int64_t j = 0; j <= i; ++j) {
        o += p[j] * (dp[j] - sum) * g.work[g.in(b, j) + g.k_at(kv) + f];
      }
      grads[g.in(b, i) + g.q_at(head) + f] = o;
    });
    Kokkos::single(Kokkos::PerTeam(team), [&]() { delta[g.lse_at(b, head, i)] = sum; });
  }
};

/// dK and dV of one key: its queries in order, head by head.
template <class T>
struct AttentionKeyTeam {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  A* grads;
  const A* delta;
  int level;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t rank = team.league_rank();
    const std::int64_t j = rank % g.s.time;
    const std::int64_t kv = rank / g.s.time % g.s.kv_heads;
    const std::int64_t b = rank / g.s.time / g.s.kv_heads;
    const std::int64_t nf = g.s.features;
    const auto bytes = static_cast<std::size_t>(g.s.time) * sizeof(A);
    A* p = static_cast<A*>(team.team_scratch(level).get_shmem(bytes));
    A* ds = static_cast<A*>(team.team_scratch(level).get_shmem(bytes));
    const A* k = g.work + g.in(b, j) + g.k_at(kv);
    const A* v = g.work + g.in(b, j) + g.v_at(kv);
    A* dk = grads + g.in(b, j) + g.k_at(kv);
    A* dv = grads + g.in(b, j) + g.v_at(kv);
    for (std::int64_t head = kv * g.s.group(); head < (kv + 1) * g.s.group(); ++head) {
      team.team_barrier();
      kokkos_ext::team_for(team, g.s.time - j, [&](std::int64_t r) {
        const std::int64_t i = j + r;
        const std::int64_t at = g.lse_at(b, head, i);
        const A score = dot(g.work + g.in(b, i) + g.q_at(head), k, nf, A{0});
        p[r] = exp_nonpositive(score - g.lse[at]);
        ds[r] = p[r] * (dot(g.dy + g.out(b, i, head), v, nf, A{0}) - delta[at]);
      });
      team.team_barrier();
      const bool first = head == kv * g.s.group();
      kokkos_ext::team_for(team, nf, [&](std::int64_t f) {
        A sum_k = first ? A{0} : dk[f];
        A sum_v = first ? A{0} : dv[f];
        for (std::int64_t r = 0; r < g.s.time - j; ++r) {
          sum_k += ds[r] * g.work[g.in(b, j + r) + g.q_at(head) + f];
          sum_v += p[r] * static_cast<A>(g.dy[g.out(b, j + r, head) + f]);
        }
        dk[f] = sum_k;
        dv[f] = sum_v;
      });
    }
  }
};

}  // namespace krama::kernels::detail
