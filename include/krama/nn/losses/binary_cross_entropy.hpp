// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/kernels/row_reduce.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/nn/losses/loss.hpp>

namespace krama::nn {

namespace detail {

template <class T>
struct BinaryCrossEntropyRow {
  using A = accum_t<T>;
  const T* x;
  const T* target;
  const A* weight;
  T* dx;
  std::int64_t columns;

  KOKKOS_FUNCTION RowLoss operator()(std::int64_t r) const {
    const T* p = x + r * columns;
    const T* q = target + r * columns;
    const A w = weight == nullptr ? A{1} : weight[r];
    const A each = A{1} / static_cast<A>(columns);
    // A row without weight takes no part, whatever it holds: 0 * Inf would be NaN.
    const bool counts = w != A{0};
    if (dx != nullptr) {
      T* d = dx + r * columns;
      const A scale = w * each;
      if (counts) {
        KRAMA_VECTOR_LOOP
        for (std::int64_t i = 0; i < columns; ++i) {
          d[i] = static_cast<T>(scale *
                                (kernels::sigmoid(static_cast<A>(p[i])) - static_cast<A>(q[i])));
        }
      } else {
        for (std::int64_t i = 0; i < columns; ++i) d[i] = static_cast<T>(A{0});
      }
    }
    if (!counts) return {};
    const A sum = kernels::row_sum<A>(columns, [p, q](std::int64_t i) {
      const A v = static_cast<A>(p[i]);
      const A positive = v > A{0} ? v : A{0};
      const A size = v > A{0} ? v : -v;
      return (positive - v * static_cast<A>(q[i])) + Kokkos::log1p(kernels::exp_nonpositive(-size));
    });
    return {static_cast<double>(w) * static_cast<double>(sum * each), static_cast<double>(w)};
  }
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
    KRAMA_EXPECTS(wanted.size() == outputs.size(),
                  "binary_cross_entropy: {} targets for outputs {}; one an output is wanted",
                  wanted.size(), to_string(outputs.extents()));
    loss_over_rows<D>(
        exec, "krama::nn::binary_cross_entropy", outputs.extent(0),
        detail::BinaryCrossEntropyRow<T>{outputs.data(), wanted.data(), weights.data(),
                                         d_outputs.data(), outputs.extent(1)},
        sums, scratch);
  }
};

}  // namespace krama::nn
