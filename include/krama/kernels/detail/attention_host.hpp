// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/attention_tiles.hpp>

#if KRAMA_PACKED_GEMM
namespace krama::kernels::detail {

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
        const auto keys_seen = [=](std::int64_t r) {
          const std::int64_t end = i0 + r + tile_rows;
          return Range{0, end < time ? end : time};
        };
        h.template product<Walk::rows>(n, s, h.score_row, values, h.in_panels(time), A{0}, o,
                                       keys_seen);
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
/// dS = P (dP - rowsum(P dP)), dQ = scale dS K, dK = dS^T (scale Q). Keys and values collect the
/// parts of all query blocks and heads in order.
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
    const auto queries_seeing = [=](std::int64_t j) { return Range{j > i0 ? j - i0 : 0, n}; };
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
