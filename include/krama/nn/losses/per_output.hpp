// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/row_reduce.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/nn/losses/loss.hpp>

namespace krama::nn {

namespace detail {

template <class T, class Term>
struct PerOutputRow {
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
      const A scale = w * each;
      if (counts) {
        KRAMA_VECTOR_LOOP
        for (std::int64_t i = 0; i < columns; ++i) {
          d[i] = static_cast<T>(scale * Term::gradient(static_cast<A>(p[i]), static_cast<A>(q[i])));
        }
      } else {
        for (std::int64_t i = 0; i < columns; ++i) d[i] = static_cast<T>(A{0});
      }
    }
    if (!counts) return {};
    const A sum = kernels::row_sum<A>(columns, [p, q](std::int64_t i) {
      return Term::loss(static_cast<A>(p[i]), static_cast<A>(q[i]));
    });
    return {static_cast<double>(w) * static_cast<double>(sum * each), static_cast<double>(w)};
  }
};

}  // namespace detail

/// For writing a loss with one target t an output y: l_r = sum_c Term::loss(y, t) / columns, so that
/// the mean over rows is the mean over all outputs; dy = w_r Term::gradient(y, t) / columns. Both are
/// static KOKKOS_FUNCTIONs of two accumulators. Rows of weight 0 are left out. `name` is for messages.
/// Asynchronous on `exec`.
template <class Term, Device D, class T>
void loss_per_output(std::string_view name, const char* label, const exec_of<D>& exec,
                     Ref<const T, 2, D> outputs, Ref<const T, 1, D> wanted,
                     Ref<const accum_t<T>, 1, D> weights, Ref<double, 1, D> sums,
                     Ref<double, 1, D> scratch, Ref<T, 2, D> d_outputs) {
  KRAMA_EXPECTS(wanted.size() == outputs.size(),
                "{}: {} targets for outputs {}; one an output is wanted", name, wanted.size(),
                to_string(outputs.extents()));
  loss_over_rows<D>(exec, label, outputs.extent(0),
                    detail::PerOutputRow<T, Term>{outputs.data(), wanted.data(), weights.data(),
                                                  d_outputs.data(), outputs.extent(1)},
                    sums, scratch);
}

}  // namespace krama::nn
