// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>

#include <krama/kernels/pool.hpp>
#include <krama/kernels/window.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Means over windows that follow from the sizes of what goes in and comes out.
namespace krama::kernels {

/// Elements [begin, end) of an axis.
struct AxisPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  /// The o-th of `parts` windows over `size` elements: from floor(o size / parts) to
  /// ceil((o + 1) size / parts) (PyTorch's rule). Windows overlap where `parts` does not divide
  /// `size`; no element is left out, none is empty.
  ///
  /// Which windows hold element i is answered by the same formula with the roles exchanged: o is
  /// among them exactly if o size / parts < i + 1 and (o + 1) size / parts > i.
  KOKKOS_FUNCTION static AxisPart of(std::int64_t o, std::int64_t parts, std::int64_t size) {
    return {o * size / parts, ((o + 1) * size + parts - 1) / parts};
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t size() const { return end - begin; }
};

namespace detail {

/// For the kernels of pool.hpp.
struct AdaptiveMeans : ImageSizes {
  /// f(number in the window, pixel) for every pixel of the window at place `at`, in order.
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_pixel(const Place& at, const F& f) const {
    for_each(at.image, AxisPart::of(at.row, out_h, in_h), AxisPart::of(at.column, out_w, in_w), f);
  }
  /// f(number, place) for every place whose window holds pixel `at`, in order.
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_place(const Place& at, const F& f) const {
    for_each(at.image, AxisPart::of(at.row, in_h, out_h), AxisPart::of(at.column, in_w, out_w), f);
  }
  template <class A>
  KOKKOS_FUNCTION A factor(const Place& at) const {
    return A{1} / static_cast<A>(AxisPart::of(at.row, out_h, in_h).size() *
                                 AxisPart::of(at.column, out_w, in_w).size());
  }

 private:
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION static void for_each(std::int64_t image, const AxisPart& rows,
                                                   const AxisPart& columns, const F& f) {
    std::int64_t number = 0;
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      for (std::int64_t w = columns.begin; w < columns.end; ++w) f(number++, Place{image, h, w});
    }
  }
};

}  // namespace detail

/// y = mean of each window. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void adaptive_avg_pool(const E& exec, const ImageSizes& s, TensorRef<const T, 4, M> x,
                       TensorRef<T, 4, M> y) {
  detail::pool_means(exec, "krama::kernels::adaptive_avg_pool", detail::AdaptiveMeans{s}, x, y);
}

/// dx = sum of dy / size of the window over the windows that hold the pixel. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void adaptive_avg_pool_grad(const E& exec, const ImageSizes& s, TensorRef<const T, 4, M> dy,
                            TensorRef<T, 4, M> dx) {
  detail::pool_means_grad(exec, "krama::kernels::adaptive_avg_pool_grad", detail::AdaptiveMeans{s},
                          dy, dx);
}

}  // namespace krama::kernels
