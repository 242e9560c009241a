// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/core/concepts.hpp>
#include <krama/kernels/row_reduce.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/tensor/tensor.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Reductions of whole tensors whose bits depend on the elements alone: not on the number of
/// threads, not on how work was spread, the same on hosts and devices.
namespace krama::kernels {

namespace detail {

/// Elements per block; a piece is a run of whole blocks summed by one thread.
inline constexpr std::int64_t reduce_block = 4096;
inline constexpr std::int64_t max_pieces = 512;

/// Elements per piece: a function of n alone.
inline std::int64_t piece_of(std::int64_t n) {
  const std::int64_t blocks = (n + reduce_block - 1) / reduce_block;
  return (blocks + max_pieces - 1) / max_pieces * reduce_block;
}

struct Identity {
  KOKKOS_FUNCTION double operator()(double v) const { return v; }
};
struct Square {
  KOKKOS_FUNCTION double operator()(double v) const { return v * v; }
};

/// On hosts: one thread a piece, all lanes at once.
template <class T, class Map>
struct PieceSum {
  const T* x;
  double* out;
  std::int64_t n;
  std::int64_t piece;
  Map map;
  KOKKOS_FUNCTION void operator()(std::int64_t p) const {
    const T* from = x + p * piece;
    const std::int64_t count = n - p * piece < piece ? n - p * piece : piece;
    const Map m = map;
    out[p] = row_sum<double>(count, [from, m](std::int64_t i) {
      return m(static_cast<double>(static_cast<accum_t<T>>(from[i])));
    });
  }
};

/// On devices: one thread a lane of a piece, so that neighbours read neighbours.
template <class T, class Map>
struct LaneSum {
  const T* x;
  double* out;
  std::int64_t n;
  std::int64_t piece;
  Map map;
  KOKKOS_FUNCTION void operator()(std::int64_t k) const {
    const std::int64_t begin = k / row_lanes * piece;
    const std::int64_t end = begin + piece < n ? begin + piece : n;
    double sum = 0.0;
    for (std::int64_t i = begin + k % row_lanes; i < end; i += row_lanes) {
      sum += map(static_cast<double>(static_cast<accum_t<T>>(x[i])));
    }
    out[k] = sum;
  }
};

/// Lanes to pieces and pieces to the total, in the order of the host's loop.
struct JoinLanes {
  const double* lanes;
  double* out;
  std::int64_t pieces;
  KOKKOS_FUNCTION void operator()(std::int64_t) const {
    double total = 0.0;
    for (std::int64_t p = 0; p < pieces; ++p) {
      double lane[row_lanes];
      for (int l = 0; l < row_lanes; ++l) lane[l] = lanes[p * row_lanes + l];
      for (int half = row_lanes / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
      }
      total += lane[0];
    }
    *out = total;
  }
};

template <class Map, ExecutionSpace E, class T, MemorySpace M>
double fixed_order_sum(const E& exec, const char* label, const TensorRef<const T, 1, M>& x) {
  const std::int64_t n = x.size();
  if (n == 0) return 0.0;
  const std::int64_t piece = piece_of(n);
  const std::int64_t pieces = (n + piece - 1) / piece;
  double total = 0.0;
  if constexpr (kokkos_ext::is_host_space<E>) {
    double partial[max_pieces];
    kokkos_ext::launch(exec, label, pieces, PieceSum<T, Map>{x.data(), partial, n, piece, {}});
    kokkos_ext::fence(exec, label);
    for (std::int64_t p = 0; p < pieces; ++p) total += partial[p];
  } else {
    const std::int64_t lanes = pieces * row_lanes;
    Tensor<double, 1, M> scratch(exec, "krama::kernels::reduce::scratch", {lanes + 1});
    double* s = scratch.data();
    kokkos_ext::launch(exec, label, lanes, LaneSum<T, Map>{x.data(), s, n, piece, {}});
    kokkos_ext::launch(exec, label, 1, JoinLanes{s, s + lanes, pieces});
    copy(exec, TensorRef<double, 1, Kokkos::HostSpace>(&total, {1}),
         TensorRef<const double, 1, M>(s + lanes, {1}));
    kokkos_ext::fence(exec, label);
  }
  return total;
}

template <class T>
struct CountNonFinite {
  const T* x;
  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& found) const {
    found += Kokkos::isfinite(static_cast<accum_t<T>>(x[i])) ? 0 : 1;
  }
};

}  // namespace detail

/// Sum of all elements, accumulated in double in a fixed order. Fences `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
double sum(const E& exec, const TensorRef<const T, 1, M>& x) {
  return detail::fixed_order_sum<detail::Identity>(exec, "krama::kernels::sum", x);
}

/// Sum of squares, accumulated in double in a fixed order. For float elements it is finite exactly
/// when every element is. Fences `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
double squared_norm(const E& exec, const TensorRef<const T, 1, M>& x) {
  return detail::fixed_order_sum<detail::Square>(exec, "krama::kernels::squared_norm", x);
}

/// How many elements are infinite or NaN. Fences `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
std::int64_t count_non_finite(const E& exec, const TensorRef<const T, 1, M>& x) {
  std::int64_t found = 0;
  kokkos_ext::reduce(exec, "krama::kernels::count_non_finite", x.size(),
                     detail::CountNonFinite<T>{x.data()}, found);
  return found;
}

}  // namespace krama::kernels
