// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/nn/losses/per_output.hpp>

namespace krama::nn {

namespace detail {
template <class T>
struct MeanSquaredErrorRow {
  using A = accum_t<T>;
  KOKKOS_FUNCTION static A loss(A y, A t) {
    const A e = y - t;
    return e * e;
  }
  KOKKOS_FUNCTION static A gradient(A y, A t) { return A{2} * (y - t); }
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
    loss_per_output<detail::MeanSquaredErrorRow<T>, D, T>(
        type_name, "krama::nn::mean_squared_error", exec, outputs, wanted, weights, sums, scratch,
        d_outputs);
  }
};

}  // namespace krama::nn
