// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/row_reduce.hpp>

/// Normalisation of rows, for LayerNorm (`Centred`) and RMSNorm. With A = accum_t<T>:
///   mean = sum x / n (0 unless centred), rstd = 1 / sqrt(sum (x - mean)^2 / n + eps),
///   xhat = (x - mean) rstd, y = xhat gamma (+ beta);
///   g = dy gamma, dx = rstd (g - [sum g / n] - xhat sum(g xhat) / n), [ ] only when centred,
///   dgamma += sum over rows of dy xhat, dbeta += sum over rows of dy.
/// Sums over rows are taken in blocks of `norm_block` rows, joined in the order of the blocks: the
/// bits do not depend on the number of threads.
namespace krama::kernels {

inline constexpr std::int64_t norm_block = 32;

inline std::int64_t norm_blocks(std::int64_t rows) { return (rows + norm_block - 1) / norm_block; }

namespace detail {

template <class T, bool Centred>
struct NormForward {
  using A = accum_t<T>;
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  A* mean;
  A* rstd;
  std::int64_t rows;
  std::int64_t cols;
  A eps;

  KOKKOS_FUNCTION void row(std::int64_t r) const {
    const T* in = x + r * cols;
    T* out = y + r * cols;
    const T* scale = gamma;
    const T* shift = beta;
    const A inverse = A{1} / static_cast<A>(cols);
    A m{0};
    if constexpr (Centred) {
      m = row_sum<A>(cols, [=](std::int64_t i) { return static_cast<A>(in[i]); }) * inverse;
      mean[r] = m;
    }
    // Two passes: the difference of mean square and squared mean cancels for offset rows.
    const A variance = row_sum<A>(cols,
                                  [=](std::int64_t i) {
                                    const A d = static_cast<A>(in[i]) - m;
                                    return d * d;
                                  }) *
                       inverse;
    const A s = A{1} / Kokkos::sqrt(variance + eps);
    rstd[r] = s;
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < cols; ++i) {
      A v = (static_cast<A>(in[i]) - m) * s * static_cast<A>(scale[i]);
      if constexpr (Centred) v += static_cast<A>(shift[i]);
      out[i] = static_cast<T>(v);
    }
  }
  KOKKOS_FUNCTION void operator()(std::int64_t r) const { row(r); }
};

/// dx of single rows: devices.
template <class T, bool Centred>
struct NormBackward {
  using A = accum_t<T>;
  const T* x;
  const T* gamma;
  const T* dy;
  T* dx;
  const A* mean;
  const A* rstd;
  A* partial;  ///< (blocks, 2 or 1, cols): dgamma, dbeta of each block of rows; null: not wanted
  std::int64_t rows;
  std::int64_t cols;

  KOKKOS_FUNCTION void row(std::int64_t r) const {
    const T* in = x + r * cols;
    const T* up = dy + r * cols;
    const T* scale = gamma;
    T* out = dx + r * cols;
    A m{0};
    if constexpr (Centred) m = mean[r];
    const A s = rstd[r];
    const A inverse = A{1} / static_cast<A>(cols);
    A mean_g{0};
    if constexpr (Centred) {
      mean_g = row_sum<A>(cols,
                          [=](std::int64_t i) {
                            return static_cast<A>(up[i]) * static_cast<A>(scale[i]);
                          }) *
               inverse;
    }
    const A mean_gx = row_sum<A>(cols,
                                 [=](std::int64_t i) {
                                   return static_cast<A>(up[i]) * static_cast<A>(scale[i]) *
                                          ((static_cast<A>(in[i]) - m) * s);
                                 }) *
                      inverse;
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < cols; ++i) {
      const A g = static_cast<A>(up[i]) * static_cast<A>(scale[i]);
      const A xhat = (static_cast<A>(in[i]) - m) * s;
      out[i] = static_cast<T>(s * (g - mean_g - xhat * mean_gx));
    }
  }
  /// One column of one block's part of the parameters' gradients.
  KOKKOS_FUNCTION void column(std::int64_t block, std::int64_t c) const {
    const std::int64_t begin = block * norm_block;
    const std::int64_t end = begin + norm_block < rows ? begin + norm_block : rows;
    A* part = partial + block * (Centred ? 2 : 1) * cols;
    A dg{0};
    A db{0};
    for (std::int64_t r = begin; r < end; ++r) {
      const A up = static_cast<A>(dy[r * cols + c]);
      A m{0};
      if constexpr (Centred) m = mean[r];
      dg += up * ((static_cast<A>(x[r * cols + c]) - m) * rstd[r]);
      db += up;
    }
    part[c] = dg;
    if constexpr (Centred) part[cols + c] = db;
  }
};

template <class T, bool Centred>
struct NormBackwardRows : NormBackward<T, Centred> {
  KOKKOS_FUNCTION void operator()(std::int64_t r) const { this->row(r); }
};
template <class T, bool Centred>
struct NormBackwardColumns : NormBackward<T, Centred> {
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    this->column(i / this->cols, i % this->cols);
  }
};

/// Hosts: a block of rows is read once for both.
template <class T, bool Centred>
struct NormBackwardBlock : NormBackward<T, Centred> {
  using A = accum_t<T>;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t n = this->cols;
    const std::int64_t begin = block * norm_block;
    const std::int64_t end = begin + norm_block < this->rows ? begin + norm_block : this->rows;
    if (this->partial != nullptr) {
      A* part = this->partial + block * (Centred ? 2 : 1) * n;
      for (std::int64_t i = 0; i < (Centred ? 2 : 1) * n; ++i) part[i] = A{0};
      for (std::int64_t r = begin; r < end; ++r) {
        add_row(this->x + r * n, this->dy + r * n, Centred ? this->mean[r] : A{0}, this->rstd[r],
                part);
        if (this->dx != nullptr) this->row(r);
      }
    } else if (this->dx != nullptr) {
      for (std::int64_t r = begin; r < end; ++r) this->row(r);
    }
  }
  KOKKOS_FUNCTION void add_row(const T* in, const T* up, A m, A s, A* part) const {
    const std::int64_t n = this->cols;
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const A u = static_cast<A>(up[i]);
      part[i] += u * ((static_cast<A>(in[i]) - m) * s);
      if constexpr (Centred) part[n + i] += u;
    }
  }
};

/// Adds the blocks' parts, in order, to the parameters' gradients (null: not wanted).
template <class A>
struct NormJoin {
  static constexpr std::int64_t width = 64;
  const A* partial;
  A* dgamma;
  A* dbeta;
  std::int64_t blocks;
  std::int64_t cols;
  std::int64_t stride;  ///< of blocks in `partial`

  KOKKOS_FUNCTION void add(const A* part, A* to, std::int64_t begin, std::int64_t end) const {
    A sum[width] = {};
    for (std::int64_t b = 0; b < blocks; ++b) {
      KRAMA_VECTOR_LOOP
      for (std::int64_t c = begin; c < end; ++c) sum[c - begin] += part[b * stride + c];
    }
    for (std::int64_t c = begin; c < end; ++c) to[c] += sum[c - begin];
  }
  KOKKOS_FUNCTION void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * width;
    const std::int64_t end = begin + width < cols ? begin + width : cols;
    if (dgamma != nullptr) add(partial, dgamma, begin, end);
    if (dbeta != nullptr) add(partial + cols, dbeta, begin, end);
  }
};

}  // namespace detail

/// Elements of scratch (of accum_t<T>) that `norm_backward` wants.
template <bool Centred>
std::int64_t norm_scratch(std::int64_t rows, std::int64_t cols) {
  return checked_product(norm_blocks(rows) * (Centred ? 2 : 1), cols);
}

/// y from x (rows, cols); leaves mean (when centred) and rstd of each row. Asynchronous on `exec`.
template <bool Centred, ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void norm_forward(const E& exec, const char* label, TensorRef<const T, 2, M> x,
                  TensorRef<const T, 1, M> gamma, TensorRef<const T, 1, M> beta,
                  TensorRef<T, 2, M> y, accum_t<T>* mean, accum_t<T>* rstd, double eps) {
  kokkos_ext::launch(
      exec, label, x.extent(0),
      detail::NormForward<T, Centred>{x.data(), gamma.data(), beta.data(), y.data(), mean, rstd,
                                      x.extent(0), x.extent(1), static_cast<accum_t<T>>(eps)});
}

/// dx (null: not wanted) from dy and what forward left; dgamma and dbeta (null: not wanted) are
/// added to. `partial`: scratch of `norm_scratch` elements. Asynchronous on `exec`.
template <bool Centred, ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void norm_backward(const E& exec, const char* label, TensorRef<const T, 2, M> x,
                   TensorRef<const T, 1, M> gamma, const accum_t<T>* mean, const accum_t<T>* rstd,
                   TensorRef<const T, 2, M> dy, TensorRef<T, 2, M> dx, accum_t<T>* dgamma,
                   accum_t<T>* dbeta, accum_t<T>* partial) {
  const std::int64_t rows = x.extent(0);
  const std::int64_t cols = x.extent(1);
  const std::int64_t blocks = norm_blocks(rows);
  const bool grads = dgamma != nullptr || dbeta != nullptr;
  const detail::NormBackward<T, Centred> base{
      x.data(), gamma.data(), dy.data(), dx.data(), mean, rstd, grads ? partial : nullptr,
      rows,     cols};
  if constexpr (kokkos_ext::is_host_space<E>) {
    kokkos_ext::launch(exec, label, blocks, detail::NormBackwardBlock<T, Centred>{base});
  } else {
    if (!dx.null()) {
      kokkos_ext::launch(exec, label, rows, detail::NormBackwardRows<T, Centred>{base});
    }
    if (grads) {
      kokkos_ext::launch(exec, label, blocks * cols, detail::NormBackwardColumns<T, Centred>{base});
    }
  }
  if (grads) {
    using Join = detail::NormJoin<accum_t<T>>;
    kokkos_ext::launch(exec, label, (cols + Join::width - 1) / Join::width,
                       Join{partial, dgamma, dbeta, blocks, cols, (Centred ? 2 : 1) * cols});
  }
}

}  // namespace krama::kernels
