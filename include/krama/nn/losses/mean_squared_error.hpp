// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/row_reduce.hpp>
#include <krama/nn/losses/loss.hpp>

namespace krama::nn {

namespace detail {

template <class T>
struct MeanSquaredErrorRow {
  using A = accum_t<T>;
  const T* y;
  const T* target;
  const A* weight;
  T* dy;
  std::int64_t columns;

  KOKKOS_FUNCTION RowLoss operator()(std::int64_t r) const {
    const T* p = y + r * columns;
    const T* q = target + r * columns;
    const A w = weight == nullptr ? A{1} : weight[r];
    const A each = A{1} / static_cast<A>(columns);
    // A row without weight takes no part, whatever it holds: 0 * Inf would be NaN.
    const bool counts = w != A{0};
    if (dy != nullptr) {
      T* d = dy + r * columns;
      const A scale = A{2} * w * each;
      for (std::int64_t i = 0; i < columns; ++i) {
        d[i] = counts ? static_cast<T>(scale * (static_cast<A>(p[i]) - static_cast<A>(q[i])))
                      : static_cast<T>(A{0});
      }
    }
    if (!counts) return {};
    const A square = kernels::row_sum<A>(columns, [p, q](std::int64_t i) {
      const A e = static_cast<A>(p[i]) - static_cast<A>(q[i]);
      return e * e;
    });
    return {static_cast<double>(w) * static_cast<double>(square * each), static_cast<double>(w)};
  }
};

}  // namespace detail

/// Mean squared error: l_r = sum_c (y_rc - t_rc)^2 / columns, so that the mean over rows is the
/// mean over all outputs. dy = 2 w_r (y - t) / columns. Rows of weight 0 are left out.
struct MeanSquaredError {
  static constexpr std::string_view type_name = "mean_squared_error";
  static constexpr Targets targets = Targets::per_output;
  template <class T>
  using target = T;

  [[nodiscard]] std::int64_t scratch_elements(std::int64_t rows) const {
    return loss_scratch_elements(rows);
  }

  template <Device D, class T>
  void operator()(const exec_of<D>& exec, Ref<const T, 2, D> outputs, Ref<const T, 1, D> wanted,
                  Ref<const accum_t<T>, 1, D> weights, Ref<double, 1, D> sums,
                  Ref<double, 1, D> scratch, Ref<T, 2, D> d_outputs) const {
    KRAMA_EXPECTS(wanted.size() == outputs.size(),
                  "mean_squared_error: {} targets for outputs {}; one an output is wanted",
                  wanted.size(), to_string(outputs.extents()));
    loss_over_rows<D>(exec, "krama::nn::mean_squared_error", outputs.extent(0),
                      detail::MeanSquaredErrorRow<T>{outputs.data(), wanted.data(), weights.data(),
                                                     d_outputs.data(), outputs.extent(1)},
                      sums, scratch);
  }
};

}  // namespace krama::nn
