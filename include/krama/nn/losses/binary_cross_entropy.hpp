// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/kernels/vector_math.hpp>
#include <krama/nn/losses/per_output.hpp>

namespace krama::nn {

namespace detail {
template <class T>
struct BinaryCrossEntropyRow {
  using A = accum_t<T>;
  KOKKOS_FUNCTION static A loss(A x, A t) {
    const A positive = x > A{0} ? x : A{0};
    const A size = x > A{0} ? x : -x;
    return (positive - x * t) + Kokkos::log1p(kernels::exp_nonpositive(-size));
  }
  KOKKOS_FUNCTION static A gradient(A x, A t) { return kernels::sigmoid(x) - t; }
};
}  // namespace detail

/// Binary cross-entropy of sigmoids of the outputs x (logits, any finite size) against one target t in
/// [0, 1] an output: l_r = sum_c (max(x, 0) - x t + log(1 + exp(-|x|))) / columns, so that the mean
/// over rows is the mean over all outputs; dx = w_r (sigmoid(x) - t) / columns. Nothing overflows, and
/// probabilities are never rounded to 0 or 1 before the logarithm. Rows of weight 0 are left out.
struct BinaryCrossEntropy {
  static constexpr std::string_view type_name = "binary_cross_entropy";
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
    loss_per_output<detail::BinaryCrossEntropyRow<T>, D, T>(
        type_name, "krama::nn::binary_cross_entropy", exec, outputs, wanted, weights, sums, scratch,
        d_outputs);
  }
};

}  // namespace krama::nn
