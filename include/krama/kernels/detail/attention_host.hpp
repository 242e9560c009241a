// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <limits>

#include <krama/kernels/detail/attention_args.hpp>
#include <krama/kernels/detail/gemm_micro.hpp>
#include <krama/kernels/detail/transpose.hpp>
#include <krama/kernels/row_reduce.hpp>

#if KRAMA_PACKED_GEMM
/// Causal attention on hosts. One thread does all heads of one key-value head of one sample, a block
/// of query rows at a time: scores of the block against all keys it may see, softmax, output; nothing
/// of size time * time is kept. All products run through the register kernel of the packed product,
/// in tiles that stop at the diagonal; everything a tile needs stays in the second-level cache.
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
        micro_rows<tile_rows, W>(m, last - first,
                                 W == Walk::rows ? a + (r * sa + first) : a + (first * sa + r), sa,
                                 b + first * lie.row, lie.row, e, c + (r * padded_features + f0),
                                 padded_features, wide);
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
        micro_rows<tile_rows, Walk::rows>(m, features, a + r * padded_features, padded_features,
                                          turned_b + t0 * features, panel, e,
                                          s + (r * score_row + t0), score_row,
                                          half ? panel / 2 : panel);
      }
    }
  }

  /// Rows that serve as a second factor end in zeros.
  void end_features(A* row) const {
    for (std::int64_t f = features; f < padded_features; ++f) row[f] = A{0};
  }

  /// Length of a row of scores that ends at its diagonal, in whole vectors: softmax and the products
  /// read that far, so the scores past the diagonal are made -inf, their probabilities 0.
  static std::int64_t end_row(A* row, std::int64_t seen) {
    const std::int64_t begin = (seen - 1) / unit * unit;
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = 0; c < unit; ++c) {
      const A v = row[begin + c];
      row[begin + c] = begin + c < seen ? v : -std::numeric_limits<A>::infinity();
    }
    return round_up(seen, unit);
  }

  /// Into the second-level cache. Rows of one head lie far apart, where the machine's own prefetching
  /// stops, so the next head's rows are asked for while this one's are worked on.
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

template <class T>
struct AttentionForwardHost {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  AttentionHost<A> h;
  std::int64_t lanes;

  void operator()(std::int64_t lane) const {
    const std::int64_t items = g.s.batch * g.s.kv_heads;
    for (std::int64_t i = items * lane / lanes; i < items * (lane + 1) / lanes; ++i) {
      item(i / g.s.kv_heads, i % g.s.kv_heads, g.work + lane * h.work());
    }
  }
  void item(std::int64_t b, std::int64_t kv, A* work) const {
    const std::int64_t time = g.s.time;
    const std::int64_t nf = g.s.features;
    A* keys = work;
    A* values = keys + h.turned();
    A* q = values + h.upright();
    A* o = q + h.rows();
    A* s = o + h.rows();
    A* inverse = s + h.scores();
    A* tops = inverse + h.block;
    A* buffer = tops + h.block;
    h.pack_turned(keys, buffer, [&](std::int64_t t, A* to) {
      rope_row(g.s.rope, g.qkv + g.in(b, t) + g.k_at(kv), to, nf, g.angles(t), A{1}, A{1});
    });
    for (std::int64_t t = 0; t < time; ++t) {
      rope_row(RopeStyle::none, g.qkv + g.in(b, t) + g.v_at(kv), buffer, nf, g.table, A{1}, A{1});
      h.pack_upright_row(values, time, t, buffer);
    }
    for (std::int64_t head = kv * g.s.group(); head < (kv + 1) * g.s.group(); ++head) {
      for (std::int64_t i0 = 0; i0 < time; i0 += h.block) {
        const std::int64_t n = time - i0 < h.block ? time - i0 : h.block;
        for (std::int64_t r = 0; r < n; ++r) {
          h.prefetch_next(g, b, head, i0 + r, false);
          rope_row(g.s.rope, g.qkv + g.in(b, i0 + r) + g.q_at(head), q + r * h.padded_features, nf,
                   g.angles(i0 + r), g.scale(), A{1});
        }
        h.scores_of(i0, n, q, keys, s);
        for (std::int64_t r = 0; r < n; ++r) {
          A* row = s + r * h.score_row;
          const std::int64_t seen = h.end_row(row, i0 + r + 1);
          const A top = row_max<A>(seen, row[0], [=](std::int64_t j) { return row[j]; });
          const A sum = row_sum<A>(seen, [=](std::int64_t j) {
            const A e = exp_nonpositive(row[j] - top);
            row[j] = e;
            return e;
          });
          inverse[r] = sum;
          tops[r] = top;
        }
        A* lse = g.lse + g.lse_at(b, head, i0);
        KRAMA_VECTOR_LOOP
        for (std::int64_t r = 0; r < n; ++r) {
          lse[r] = tops[r] + log(inverse[r]);
          inverse[r] = A{1} / inverse[r];
        }
        h.template product<Walk::rows>(n, s, h.score_row, values, h.in_panels(time), A{0}, o, [=](auto r) {
          const std::int64_t end = i0 + r + tile_rows;
          return Range{0, end < time ? end : time};
        });
        for (std::int64_t r = 0; r < n; ++r) {
          T* to = g.y + g.out(b, i0 + r, head);
          rope_row(RopeStyle::none, o + r * h.padded_features, to, nf, g.table, inverse[r], A{1});
        }
      }
    }
  }
  struct Range {
    std::int64_t first;
    std::int64_t last;
  };
};

/// Probabilities are made again from the scores and the stashed log of their sum. With P the
/// probabilities and D the gradient of the output: dV = P^T D, dP = D V^T,
/// dS = P (dP - rowsum(P dP)), dQ = scale dS K, dK = dS^T (scale Q). Keys and values collect the parts
/// of all query blocks and heads in order.
template <class T>
struct AttentionBackwardHost {
  using A = accum_t<T>;
  AttentionArgs<T> g;
  AttentionHost<A> h;
  std::int64_t lanes;

  void operator()(std::int64_t lane) const {
    const std::int64_t items = g.s.batch * g.s.kv_heads;
    for (std::int64_t i = items * lane / lanes; i < items * (lane + 1) / lanes; ++i) {
      item(i / g.s.kv_heads, i % g.s.kv_heads, g.work + lane * h.work());
    }
  }
  void item(std::int64_t b, std::int64_t kv, A* work) const {
    const std::int64_t time = g.s.time;
    const std::int64_t nf = g.s.features;
    A* turned_k = work;
    A* turned_v = turned_k + h.turned();
    A* k = turned_v + h.turned();
    A* dk = k + h.upright();
    A* dv = dk + h.upright();
    A* buffer = dv + h.upright();
    A* rest = buffer + h.panel * h.padded_features;
    h.pack_turned(turned_k, buffer, [&](std::int64_t t, A* to) {
      rope_row(g.s.rope, g.qkv + g.in(b, t) + g.k_at(kv), to, nf, g.angles(t), A{1}, A{1});
      h.pack_upright_row(k, time, t, to);
    });
    h.pack_turned(turned_v, buffer, [&](std::int64_t t, A* to) {
      rope_row(RopeStyle::none, g.qkv + g.in(b, t) + g.v_at(kv), to, nf, g.table, A{1}, A{1});
    });
    for (std::int64_t i = 0; i < 2 * h.upright(); ++i) dk[i] = A{0};
    for (std::int64_t head = kv * g.s.group(); head < (kv + 1) * g.s.group(); ++head) {
      for (std::int64_t i0 = 0; i0 < time; i0 += h.block) {
        query_block(b, head, i0, turned_k, turned_v, k, dk, dv, rest);
      }
    }
    for (std::int64_t t = 0; t < time; ++t) {
      T* to = g.dqkv + g.in(b, t);
      rope_row(g.s.rope, dk + t * h.padded_features, to + g.k_at(kv), nf, g.angles(t), A{1}, A{-1});
      rope_row(RopeStyle::none, dv + t * h.padded_features, to + g.v_at(kv), nf, g.table, A{1},
               A{1});
    }
  }

  void query_block(std::int64_t b, std::int64_t head, std::int64_t i0, const A* turned_k,
                   const A* turned_v, const A* k, A* dk, A* dv, A* work) const {
    const std::int64_t time = g.s.time;
    const std::int64_t nf = g.s.features;
    const std::int64_t n = time - i0 < h.block ? time - i0 : h.block;
    A* q = work;
    A* d = q + h.rows();
    A* dq = d + h.rows();
    A* s = dq + h.rows();
    A* dp = s + h.scores();
    for (std::int64_t r = 0; r < n; ++r) {
      h.prefetch_next(g, b, head, i0 + r, true);
      A* q_row = q + r * h.padded_features;
      A* d_row = d + r * h.padded_features;
      rope_row(g.s.rope, g.qkv + g.in(b, i0 + r) + g.q_at(head), q_row, nf, g.angles(i0 + r),
               g.scale(), A{1});
      rope_row(RopeStyle::none, g.dy + g.out(b, i0 + r, head), d_row, nf, g.table, A{1}, A{1});
      h.end_features(q_row);
      h.end_features(d_row);
    }
    h.scores_of(i0, n, q, turned_k, s);
    h.scores_of(i0, n, d, turned_v, dp);
    for (std::int64_t r = 0; r < n; ++r) {
      A* p = s + r * h.score_row;
      A* ds = dp + r * h.score_row;
      const std::int64_t seen = h.end_row(p, i0 + r + 1);
      const A lse = g.lse[g.lse_at(b, head, i0 + r)];
      const A delta = row_sum<A>(seen, [=](std::int64_t j) {
        const A e = exp_nonpositive(p[j] - lse);
        p[j] = e;
        return e * ds[j];
      });
      KRAMA_VECTOR_LOOP
      for (std::int64_t j = 0; j < seen; ++j) ds[j] = p[j] * (ds[j] - delta);
    }
    const auto keys_seen = [=](std::int64_t r) {
      const std::int64_t end = i0 + r + tile_rows;
      return Range{0, end < time ? end : time};
    };
    const auto queries_seeing = [=](std::int64_t j) {
      return Range{j > i0 ? j - i0 : 0, n};
    };
    h.template product<Walk::rows>(n, dp, h.score_row, k, h.in_panels(time), A{0}, dq, keys_seen);
    h.template product<Walk::columns>(i0 + n, s, h.score_row, d, h.in_rows(), A{1}, dv,
                                      queries_seeing);
    h.template product<Walk::columns>(i0 + n, dp, h.score_row, q, h.in_rows(), A{1}, dk,
                                      queries_seeing);
    for (std::int64_t r = 0; r < n; ++r) {
      rope_row(g.s.rope, dq + r * h.padded_features, g.dqkv + g.in(b, i0 + r) + g.q_at(head), nf,
               g.angles(i0 + r), g.scale(), A{-1});
    }
  }
  struct Range {
    std::int64_t first;
    std::int64_t last;
  };
};

}  // namespace krama::kernels::detail
#endif
