// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <limits>

#include <krama/kernels/detail/attention_args.hpp>
#include <krama/kernels/detail/gemm_micro.hpp>
#include <krama/kernels/detail/transpose.hpp>
#include <krama/kernels/row_reduce.hpp>

#if KRAMA_PACKED_GEMM
/// Causal attention on hosts. One thread does all heads of one key-value head of one sample, a
/// block of query rows at a time: scores of the block against all keys it may see, softmax,
/// output; nothing of size time * time is kept. All products run through the register kernel of
/// the packed product, in tiles that stop at the diagonal; everything a tile needs stays in the
/// second-level cache.
namespace krama::kernels::detail {

template <class A>
struct AttentionHost {
  static constexpr std::int64_t panel = tile_cols<A>;
  static constexpr std::int64_t block = 64;  ///< query rows
  /// Rows of scores are read in whole units past the diagonal.
  static constexpr std::int64_t unit = panel < row_lanes ? panel : row_lanes;
  static constexpr bool half_panels = panel / 2 >= unit;
  static_assert(block % tile_rows == 0 && unit % tile_rows == 0);

  static std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

  std::int64_t time;
  std::int64_t features;
  std::int64_t padded_time = round_up(time, panel);
  std::int64_t padded_features = round_up(features, panel);
  /// Length of a row of scores; not a power of two, whose rows would share few cache sets.
  std::int64_t score_row = padded_time + panel / 2;

  [[nodiscard]] std::int64_t turned() const { return features * padded_time; }
  [[nodiscard]] std::int64_t upright() const { return time * padded_features; }
  [[nodiscard]] std::int64_t rows() const { return block * padded_features; }
  [[nodiscard]] std::int64_t scores() const { return block * score_row; }
  /// Elements of work memory a thread needs.
  [[nodiscard]] std::int64_t forward_work() const {
    return turned() + upright() + 2 * rows() + scores() + 2 * block + panel * padded_features;
  }
  [[nodiscard]] std::int64_t backward_work() const {
    return 2 * turned() + 3 * upright() + 3 * rows() + 2 * scores() + panel * padded_features;
  }
  [[nodiscard]] std::int64_t work() const {
    return round_up(forward_work() > backward_work() ? forward_work() : backward_work(), 64);
  }

  /// Panels of columns t, rows f: B of a product over features. `row(t, to)` writes one row.
  template <class Row>
  void pack_turned(A* to, A* buffer, const Row& row) const {
    constexpr std::int64_t width = VectorOf<A>::width;
    for (std::int64_t t0 = 0; t0 < padded_time; t0 += panel) {
      const std::int64_t n = time - t0 < panel ? time - t0 : panel;
      for (std::int64_t c = 0; c < n; ++c) row(t0 + c, buffer + c * padded_features);
      for (std::int64_t i = n * padded_features; i < panel * padded_features; ++i) buffer[i] = A{0};
      for (std::int64_t f = 0; f < features; f += width) {
        for (std::int64_t c = 0; c < panel; c += width) {
          transpose_square(buffer + (c * padded_features + f), padded_features,
                           to + (t0 * features + f * panel + c), panel, features - f);
        }
      }
    }
  }
  /// Panels of columns f, `n` rows t: B of a product over positions.
  void pack_upright_row(A* to, std::int64_t n, std::int64_t t, const A* from) const {
    for (std::int64_t f0 = 0; f0 < padded_features; f0 += panel) {
      A* line = to + (f0 * n + t * panel);
      const std::int64_t valid = features - f0 < panel ? features - f0 : panel;
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = 0; c < valid; ++c) line[c] = from[f0 + c];
      for (std::int64_t c = valid; c < panel; ++c) line[c] = A{0};
    }
  }

  /// How the rows of a product's second factor lie: at `row` apart, and `next` from one panel of
  /// columns to the next.
  struct Lie {
    std::int64_t row;
    std::int64_t next;
  };
  [[nodiscard]] Lie in_panels(std::int64_t n) const { return {panel, n * panel}; }
  [[nodiscard]] Lie in_rows() const { return {padded_features, panel}; }

  /// C (n rows, features) = or += A B; the depth may differ from tile to tile: `depth(r)` gives the
  /// first and one past the last step of the tile of rows at r.
  template <Walk W, class Depth>
  void product(std::int64_t n, const A* a, std::int64_t sa, const A* b, const Lie& lie, A beta,
               A* c, const Depth& depth) const {
    const Epilogue<A, A> e{A{1}, beta, nullptr};
    for (std::int64_t f0 = 0; f0 < padded_features; f0 += panel, b += lie.next) {
      const std::int64_t wide = features - f0 > panel / 2 ? panel : panel / 2;
      for (std::int64_t r = 0; r < n; r += tile_rows) {
        const auto [first, last] = depth(r);
        const std::int64_t m = n - r < tile_rows ? n - r : tile_rows;
        micro_rows<tile_rows, W>(
            m, last - first, W == Walk::rows ? a + (r * sa + first) : a + (first * sa + r), sa,
            b + first * lie.row, lie.row, e, c + (r * padded_features + f0), padded_features, wide);
      }
    }
  }

  /// scores (n rows from query i0) = rows (n, features) times turned, up to the diagonal's panel.
  void scores_of(std::int64_t i0, std::int64_t n, const A* a, const A* turned_b, A* s) const {
    const Epilogue<A, A> e{A{1}, A{0}, nullptr};
    for (std::int64_t t0 = 0; t0 < i0 + n; t0 += panel) {
      const std::int64_t skip = t0 > i0 ? (t0 - i0) / tile_rows * tile_rows : 0;
      for (std::int64_t r = skip; r < n; r += tile_rows) {
        const std::int64_t m = n - r < tile_rows ? n - r : tile_rows;
        const bool half = half_panels && i0 + r + tile_rows <= t0 + panel / 2;
        micro_rows<tile_rows, Walk::rows>(
            m, features, a + r * padded_features, padded_features, turned_b + t0 * features, panel,
            e, s + (r * score_row + t0), score_row, half ? panel / 2 : panel);
      }
    }
  }

  /// Rows that serve as a second factor end in zeros.
  void end_features(A* row) const {
    for (std::int64_t f = features; f < padded_features; ++f) row[f] = A{0};
  }

  /// Length of a row of scores that ends at its diagonal, in whole vectors: softmax and the
  /// products read that far, so the scores past the diagonal are made -inf, their probabilities 0.
  static std::int64_t end_row(A* row, std::int64_t seen) {
    const std::int64_t begin = (seen - 1) / unit * unit;
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = 0; c < unit; ++c) {
      const A v = row[begin + c];
      row[begin + c] = begin + c < seen ? v : -std::numeric_limits<A>::infinity();
    }
    return round_up(seen, unit);
  }

  /// Into the second-level cache. Rows of one head lie far apart, where the machine's own
  /// prefetching stops, so the next head's rows are asked for while this one's are worked on.
  template <class T>
  void prefetch(const T* row) const {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t f = 0; f < features; f += line) __builtin_prefetch(row + f, 0, 2);
  }
  template <class T>
  void prefetch_next(const AttentionArgs<T>& g, std::int64_t b, std::int64_t head, std::int64_t t,
                     bool backward) const {
    const std::int64_t next = (b * g.s.heads + head + 1) % (g.s.batch * g.s.heads);
    const std::int64_t nb = next / g.s.heads;
    const std::int64_t nh = next % g.s.heads;
    const std::int64_t row = g.in(nb, t);
    const std::int64_t kv = nh / g.s.group();
    prefetch(g.qkv + row + g.q_at(nh));
    prefetch(backward ? g.dy + g.out(nb, t, nh) : g.y + g.out(nb, t, nh));
    if (backward) prefetch(g.dqkv + row + g.q_at(nh));
    if (nh % g.s.group() != 0) return;
    prefetch(g.qkv + row + g.k_at(kv));
    prefetch(g.qkv + row + g.v_at(kv));
    if (backward) prefetch(g.dqkv + row + g.k_at(kv));
    if (backward) prefetch(g.dqkv + row + g.v_at(kv));
  }
};

}  // namespace krama::kernels::detail
#endif
