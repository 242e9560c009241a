// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/core/dtype.hpp>
#include <krama/kernels/rope.hpp>

namespace krama::kernels {

/// Sizes of causal attention over packed rows: a row holds the queries of all heads, then the keys,
/// then the values of all key-value heads; `heads / kv_heads` consecutive heads share one.
struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t time = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t features = 0;  ///< of one head
  RopeStyle rope = RopeStyle::none;

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t row_in() const {
    return (heads + 2 * kv_heads) * features;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t row_out() const { return heads * features; }
};

/// Everything that attention's kernels read and write. In backward `y` is not used.
template <class T>
struct AttentionArgs {
  using A = accum_t<T>;
  AttentionSizes s;
  const T* qkv = nullptr;
  T* y = nullptr;
  A* lse = nullptr;  ///< (batch, heads, time): log of each row's sum of exponentials
  const T* dy = nullptr;
  T* dqkv = nullptr;
  const A* table = nullptr;  ///< of the rotations; unused without
  A* work = nullptr;

  [[nodiscard]] KOKKOS_FUNCTION A scale() const {
    return A{1} / Kokkos::sqrt(static_cast<A>(s.features));
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t in(std::int64_t b, std::int64_t t) const {
    return (b * s.time + t) * s.row_in();
  }
  /// Where in a packed row the queries of a head, the keys and the values of a key-value head
  /// begin.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t q_at(std::int64_t head) const {
    return head * s.features;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t k_at(std::int64_t kv) const {
    return (s.heads + kv) * s.features;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t v_at(std::int64_t kv) const {
    return (s.heads + s.kv_heads + kv) * s.features;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t out(std::int64_t b, std::int64_t t,
                                                 std::int64_t head) const {
    return (b * s.time + t) * s.row_out() + head * s.features;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t lse_at(std::int64_t b, std::int64_t head,
                                                    std::int64_t t) const {
    return (b * s.heads + head) * s.time + t;
  }
  [[nodiscard]] KOKKOS_FUNCTION const A* angles(std::int64_t t) const {
    return table == nullptr ? nullptr : table + t * s.features;
  }
};

}  // namespace krama::kernels
