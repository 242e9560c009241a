// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/detail/attention_host.hpp>
#include <krama/kernels/detail/attention_portable.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Causal self-attention over packed queries, keys and values, and its gradient. Forward leaves the
/// log of each row's sum of exponentials; backward makes the probabilities again from it, block by
/// block (Dao et al. 2022, arXiv:2205.14135), so memory grows with time and not with its square.
/// Deterministic: each output element has one owner and a fixed order of additions.
namespace krama::kernels {

/// Hosts with GNU vector types take the blocked kernels, everything else the portable ones.
template <ExecutionSpace E>
inline constexpr bool attention_is_blocked = KRAMA_PACKED_GEMM && kokkos_ext::is_host_space<E>;

namespace detail {

inline std::int64_t attention_lanes(const AttentionSizes& s) {
  const std::int64_t items = s.batch * s.kv_heads;
  const std::int64_t threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  return items < threads ? items : threads;
}

template <ExecutionSpace E>
auto attention_teams(const E& exec, std::int64_t league, std::int64_t bytes, int& level) {
  // Shared memory where it fits; the larger, slower level for long sequences. Room to align both.
  const std::int64_t wanted = bytes + 64;
  level = wanted <= 32 * 1024 ? 0 : 1;
  return Kokkos::TeamPolicy<E>(exec, static_cast<int>(league), Kokkos::AUTO)
      .set_scratch_size(level, Kokkos::PerTeam(static_cast<std::size_t>(wanted)));
}

template <ExecutionSpace E, class T>
void attention_forward_portable(const E& exec, const AttentionArgs<T>& g) {
  const auto& s = g.s;
  kokkos_ext::launch(exec, "krama::kernels::attention_turn",
                     s.batch * s.time * (s.heads + 2 * s.kv_heads), AttentionTurn<T>{g});
  int level = 0;
  const auto bytes = s.time * static_cast<std::int64_t>(sizeof(accum_t<T>));
  const auto policy = attention_teams(exec, s.batch * s.heads * s.time, bytes, level);
  kokkos_ext::launch_policy("krama::kernels::attention_forward", policy,
                            AttentionForwardTeam<T>{g, level});
}

template <ExecutionSpace E, class T>
void attention_backward_portable(const E& exec, const AttentionArgs<T>& g) {
  using A = accum_t<T>;
  const auto& s = g.s;
  const std::int64_t parts = s.batch * s.time * (s.heads + 2 * s.kv_heads);
  A* grads = g.work + s.batch * s.time * s.row_in();
  A* delta = grads + s.batch * s.time * s.row_in();
  kokkos_ext::launch(exec, "krama::kernels::attention_turn", parts, AttentionTurn<T>{g});
  int level = 0;
  const auto bytes = 2 * s.time * static_cast<std::int64_t>(sizeof(A));
  const auto queries = attention_teams(exec, s.batch * s.heads * s.time, bytes, level);
  kokkos_ext::launch_policy("krama::kernels::attention_queries", queries,
                            AttentionQueryTeam<T>{g, grads, delta, level});
  const auto keys = attention_teams(exec, s.batch * s.kv_heads * s.time, bytes, level);
  kokkos_ext::launch_policy("krama::kernels::attention_keys", keys,
                            AttentionKeyTeam<T>{g, grads, delta, level});
  kokkos_ext::launch(exec, "krama::kernels::attention_turn_back", parts,
                     AttentionTurnBack<T>{g, grads});
}

}  // namespace detail

/// Elements of accum_t<T> that the kernels on `E` want as work memory, beside the table of
/// rotations.
template <ExecutionSpace E, class A>
std::int64_t attention_work(const AttentionSizes& s) {
#if KRAMA_PACKED_GEMM
  if constexpr (attention_is_blocked<E>) {
    const detail::AttentionHost<A> h{s.time, s.features};
    return detail::attention_lanes(s) * h.work();
  }
#endif
  return detail::attention_portable_work(s);
}

/// Fills `table` (time, features) where there are rotations. Asynchronous on `exec`.
template <ExecutionSpace E, class A>
void attention_table(const E& exec, const AttentionSizes& s, A* table, double theta) {
  if (s.rope != RopeStyle::none) rope_table(exec, table, s.time, s.features, theta);
}

/// y and lse from qkv (see `AttentionArgs`). Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void attention_forward(const E& exec, const AttentionArgs<T>& g) {
#if KRAMA_PACKED_GEMM
  if constexpr (attention_is_blocked<E>) {
    const std::int64_t lanes = detail::attention_lanes(g.s);
    kokkos_ext::launch(exec, "krama::kernels::attention_forward", lanes,
                       detail::AttentionForwardHost<T>{g, {g.s.time, g.s.features}, lanes});
    return;
  }
#endif
  detail::attention_forward_portable(exec, g);
}

/// dqkv from dy, qkv and lse (see `AttentionArgs`). Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void attention_backward(const E& exec, const AttentionArgs<T>& g) {
#if KRAMA_PACKED_GEMM
  if constexpr (attention_is_blocked<E>) {
    const std::int64_t lanes = detail::attention_lanes(g.s);
    kokkos_ext::launch(exec, "krama::kernels::attention_backward", lanes,
                       detail::AttentionBackwardHost<T>{g, {g.s.time, g.s.features}, lanes});
    return;
  }
#endif
  detail::attention_backward_portable(exec, g);
}

}  // namespace krama::kernels
