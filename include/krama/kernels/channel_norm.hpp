// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/for_each_2d.hpp>
#include <krama/kernels/vector_math.hpp>

/// Statistics of the channels (the last extent) of channels-last tensors, for batch and group
/// normalisation. A tensor is seen as (segments, rows, channels): one segment for the whole batch, or
/// one for each image. Per segment s and channel c:
///   moments: mean, and M2 = sum over rows of (x - mean)^2
///   sums:    sum over rows of dy, and of dy xhat with xhat = (x - mean) rstd
/// Rows are taken in blocks of `channel_block`, in accum_t<T>; blocks are joined in double in the
/// order of the blocks (Chan, Golub and LeVeque 1979 for moments). So mean square minus squared mean
/// never appears, and the bits do not depend on the number of threads.
namespace krama::kernels {

/// How a tensor is cut for its statistics.
struct ChannelRows {
  std::int64_t segments = 1;
  std::int64_t rows = 0;  ///< per segment; may be 0
  std::int64_t channels = 0;
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t all_rows() const { return segments * rows; }
};

inline constexpr std::int64_t channel_block = 128;

inline std::int64_t channel_blocks(const ChannelRows& n) {
  return (n.rows + channel_block - 1) / channel_block;
}
/// Doubles that one result takes: two numbers for each segment and channel.
inline std::int64_t channel_results(const ChannelRows& n) {
  return checked_product(2 * n.segments, n.channels);
}
/// Doubles of scratch that `channel_moments` and `channel_sums` want for their blocks.
inline std::int64_t channel_scratch(const ChannelRows& n) {
  return checked_product(channel_results(n), channel_blocks(n));
}

namespace detail {

/// Channels per thread: a few vectors on hosts; on devices one, so that neighbours read neighbours.
template <class E>
inline constexpr int channel_width = kokkos_ext::is_host_space<E> ? 64 : 1;

/// Item i of (segments, blocks, pieces of W channels).
template <int W>
struct ChannelTile {
  std::int64_t segment, block, first, width, begin, end;
  KOKKOS_FUNCTION ChannelTile(const ChannelRows& n, std::int64_t blocks, std::int64_t i) {
    const std::int64_t pieces = (n.channels + W - 1) / W;
    first = i % pieces * W;
    block = i / pieces % blocks;
    segment = i / pieces / blocks;
    width = n.channels - first < W ? n.channels - first : W;
    begin = block * channel_block;
    end = begin + channel_block < n.rows ? begin + channel_block : n.rows;
  }
};

/// Mean and M2 of one block: two passes, the second of which also says by how much the first mean
/// was rounded.
template <class T, int W>
struct ChannelMoments {
  using A = accum_t<T>;
  const T* x;
  double* partial;  ///< (segments, blocks, 2, channels)
  ChannelRows n;
  std::int64_t blocks;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const ChannelTile<W> t(n, blocks, i);
    const T* from = x + (t.segment * n.rows + t.begin) * n.channels + t.first;
    const std::int64_t rows = t.end - t.begin;
    const A inverse = A{1} / static_cast<A>(rows);
    A mean[std::size_t{W}] = {};
    A first[std::size_t{W}] = {};
    A second[std::size_t{W}] = {};
    for (std::int64_t r = 0; r < rows; ++r) add(from + r * n.channels, mean, t.width);
    for (std::int64_t c = 0; c < t.width; ++c) mean[c] *= inverse;
    for (std::int64_t r = 0; r < rows; ++r) {
      add_powers(from + r * n.channels, mean, first, second, t.width);
    }
    double* out = partial + (t.segment * blocks + t.block) * 2 * n.channels + t.first;
    const double count = static_cast<double>(rows);
    for (std::int64_t c = 0; c < t.width; ++c) {
      const double shift = static_cast<double>(first[c]) / count;
      const double m2 = static_cast<double>(second[c]) - shift * static_cast<double>(first[c]);
      out[c] = static_cast<double>(mean[c]) + shift;
      out[n.channels + c] = m2 > 0.0 || m2 != m2 ? m2 : 0.0;
    }
  }
  KOKKOS_FUNCTION void add(const T* row, A* sum, std::int64_t width) const {
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = 0; c < width; ++c) sum[c] += static_cast<A>(row[c]);
  }
  KOKKOS_FUNCTION void add_powers(const T* row, const A* mean, A* first, A* second,
                                  std::int64_t width) const {
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = 0; c < width; ++c) {
      const A d = static_cast<A>(row[c]) - mean[c];
      first[c] += d;
      second[c] += d * d;
    }
  }
};

/// Joins the blocks' moments in order; no rows: 0 and 0.
template <int W>
struct JoinChannelMoments {
  const double* partial;
  double* out;  ///< (segments, 2, channels)
  ChannelRows n;
  std::int64_t blocks;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const ChannelTile<W> t(n, 1, i);
    double mean[std::size_t{W}] = {};
    double m2[std::size_t{W}] = {};
    double before = 0.0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const double* part = partial + (t.segment * blocks + b) * 2 * n.channels + t.first;
      const std::int64_t left = n.rows - b * channel_block;
      const double count = static_cast<double>(left < channel_block ? left : channel_block);
      join(part, mean, m2, before, count, t.width);
      before += count;
    }
    double* to = out + t.segment * 2 * n.channels + t.first;
    for (std::int64_t c = 0; c < t.width; ++c) {
      to[c] = mean[c];
      to[n.channels + c] = m2[c];
    }
  }
  KOKKOS_FUNCTION void join(const double* part, double* mean, double* m2, double before,
                            double count, std::int64_t width) const {
    const double share = count / (before + count);
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = 0; c < width; ++c) {
      const double d = part[c] - mean[c];
      mean[c] += d * share;
      m2[c] += part[n.channels + c] + d * d * (before * share);
    }
  }
};

/// Sums of dy and dy xhat over one block.
template <class T, int W>
struct ChannelSums {
  using A = accum_t<T>;
  const T* x;
  const T* dy;
  const A* mean;  ///< (segments, channels), as rstd
  const A* rstd;
  double* partial;
  ChannelRows n;
  std::int64_t blocks;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const ChannelTile<W> t(n, blocks, i);
    const std::int64_t at = (t.segment * n.rows + t.begin) * n.channels + t.first;
    const A* m = mean + t.segment * n.channels + t.first;
    const A* s = rstd + t.segment * n.channels + t.first;
    A plain[std::size_t{W}] = {};
    A times[std::size_t{W}] = {};
    for (std::int64_t r = 0; r < t.end - t.begin; ++r) {
      add(x + at + r * n.channels, dy + at + r * n.channels, m, plain, times, t.width);
    }
    double* out = partial + (t.segment * blocks + t.block) * 2 * n.channels + t.first;
    for (std::int64_t c = 0; c < t.width; ++c) {
      out[c] = static_cast<double>(plain[c]);
      out[n.channels + c] = static_cast<double>(times[c]) * static_cast<double>(s[c]);
    }
  }
  KOKKOS_FUNCTION void add(const T* in, const T* up, const A* m, A* plain, A* times,
                           std::int64_t width) const {
    KRAMA_VECTOR_LOOP
    for (std::int64_t c = 0; c < width; ++c) {
      const A u = static_cast<A>(up[c]);
      plain[c] += u;
      times[c] += u * (static_cast<A>(in[c]) - m[c]);
    }
  }
};

template <int W>
struct JoinChannelSums {
  const double* partial;
  double* out;
  ChannelRows n;
  std::int64_t blocks;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const ChannelTile<W> t(n, 1, i);
    double sum[2 * std::size_t{W}] = {};
    for (std::int64_t b = 0; b < blocks; ++b) {
      const double* part = partial + (t.segment * blocks + b) * 2 * n.channels + t.first;
      for (std::int64_t c = 0; c < t.width; ++c) {
        sum[c] += part[c];
        sum[W + c] += part[n.channels + c];
      }
    }
    double* to = out + t.segment * 2 * n.channels + t.first;
    for (std::int64_t c = 0; c < t.width; ++c) {
      to[c] = sum[c];
      to[n.channels + c] = sum[W + c];
    }
  }
};

/// y = (x - mean) rstd gamma + beta
template <class T>
struct ChannelAffine {
  using A = accum_t<T>;
  const T* x;
  const T* gamma;
  const T* beta;
  const A* mean;
  const A* rstd;
  T* y;
  std::int64_t rows;
  std::int64_t channels;

  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t at = row / rows * channels + c;
    const std::int64_t i = row * channels + c;
    y[i] =
        static_cast<T>((static_cast<A>(x[i]) - mean[at]) * (rstd[at] * static_cast<A>(gamma[c])) +
                       static_cast<A>(beta[c]));
  }
};

/// dx = a dy - b xhat - d
template <class T>
struct ChannelBackward {
  using A = accum_t<T>;
  const T* x;
  const T* dy;
  const A* mean;
  const A* rstd;
  const A* factors;  ///< (segments, 3, channels): a, b, d
  T* dx;
  std::int64_t rows;
  std::int64_t channels;

  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t segment = row / rows;
    const std::int64_t at = segment * channels + c;
    const A* f = factors + segment * 3 * channels;
    const std::int64_t i = row * channels + c;
    const A xhat = (static_cast<A>(x[i]) - mean[at]) * rstd[at];
    dx[i] =
        static_cast<T>(f[c] * static_cast<A>(dy[i]) - f[channels + c] * xhat - f[2 * channels + c]);
  }
};

/// dgamma += sum over segments of the sums of dy xhat, dbeta of those of dy (null: not wanted).
template <class A>
struct ChannelParamGrads {
  const double* sums;
  A* dgamma;
  A* dbeta;
  std::int64_t segments;
  std::int64_t channels;
  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    double plain = 0.0;
    double times = 0.0;
    for (std::int64_t s = 0; s < segments; ++s) {
      plain += sums[s * 2 * channels + c];
      times += sums[(s * 2 + 1) * channels + c];
    }
    if (dgamma != nullptr) dgamma[c] += static_cast<A>(times);
    if (dbeta != nullptr) dbeta[c] += static_cast<A>(plain);
  }
};

}  // namespace detail

/// moments (segments, 2, channels): mean, then M2 of every channel. `scratch`: `channel_scratch`
/// doubles. Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void channel_moments(const E& exec, const char* label, const ChannelRows& n, const T* x,
                     double* moments, double* scratch) {
  constexpr int w = detail::channel_width<E>;
  const std::int64_t blocks = channel_blocks(n);
  const std::int64_t pieces = n.segments * ((n.channels + w - 1) / w);
  kokkos_ext::launch(exec, label, pieces * blocks,
                     detail::ChannelMoments<T, w>{x, scratch, n, blocks});
  kokkos_ext::launch(exec, label, pieces,
                     detail::JoinChannelMoments<w>{scratch, moments, n, blocks});
}

/// sums (segments, 2, channels): of dy, then of dy xhat. Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void channel_sums(const E& exec, const char* label, const ChannelRows& n, const T* x, const T* dy,
                  const accum_t<T>* mean, const accum_t<T>* rstd, double* sums, double* scratch) {
  constexpr int w = detail::channel_width<E>;
  const std::int64_t blocks = channel_blocks(n);
  const std::int64_t pieces = n.segments * ((n.channels + w - 1) / w);
  kokkos_ext::launch(exec, label, pieces * blocks,
                     detail::ChannelSums<T, w>{x, dy, mean, rstd, scratch, n, blocks});
  kokkos_ext::launch(exec, label, pieces, detail::JoinChannelSums<w>{scratch, sums, n, blocks});
}

/// y = (x - mean) rstd gamma + beta; mean and rstd are (segments, channels). Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void channel_affine(const E& exec, const char* label, const ChannelRows& n, const T* x,
                    const T* gamma, const T* beta, const accum_t<T>* mean, const accum_t<T>* rstd,
                    T* y) {
  for_each_2d(exec, label, n.all_rows(), n.channels,
              detail::ChannelAffine<T>{x, gamma, beta, mean, rstd, y, n.rows, n.channels});
}

/// dx = a dy - b xhat - d with factors (segments, 3, channels). Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void channel_backward(const E& exec, const char* label, const ChannelRows& n, const T* x,
                      const T* dy, const accum_t<T>* mean, const accum_t<T>* rstd,
                      const accum_t<T>* factors, T* dx) {
  for_each_2d(exec, label, n.all_rows(), n.channels,
              detail::ChannelBackward<T>{x, dy, mean, rstd, factors, dx, n.rows, n.channels});
}

/// Adds the sums over segments to the gradients of gamma and beta. Asynchronous on `exec`.
template <class A, ExecutionSpace E>
void channel_param_grads(const E& exec, const char* label, const ChannelRows& n, const double* sums,
                         A* dgamma, A* dbeta) {
  if (dgamma == nullptr && dbeta == nullptr) return;
  kokkos_ext::launch(exec, label, n.channels,
                     detail::ChannelParamGrads<A>{sums, dgamma, dbeta, n.segments, n.channels});
}

}  // namespace krama::kernels
