// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <limits>
#include <type_traits>

#include <krama/kernels/row_reduce.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/nn/losses/loss.hpp>

namespace krama::nn {

namespace detail {

template <class T>
struct CrossEntropyRow {
  using A = accum_t<T>;
  const T* logits;
  const std::int32_t* target;
  const A* weight;
  T* d_logits;
  std::int64_t classes;
  std::int32_t ignore_index;
  A smoothing;

  KOKKOS_FUNCTION RowLoss operator()(std::int64_t r) const {
    const T* x = logits + r * classes;
    T* d = d_logits == nullptr ? nullptr : d_logits + r * classes;
    const std::int32_t label = target[r];
    const A w = weight == nullptr ? A{1} : weight[r];
    const A even = w * (smoothing / static_cast<A>(classes));  // what every class has of the target
    if (label == ignore_index || w == A{0}) {
      if (d != nullptr) {
        for (std::int64_t i = 0; i < classes; ++i) d[i] = static_cast<T>(A{0});
      }
      return {};
    }
    KRAMA_ASSERT(label >= 0 && label < classes);
    // Labels are checked when batches are made. One that slipped through must not read elsewhere;
    // it makes the loss and the gradient NaN, which the step notices.
    const bool valid = label >= 0 && label < classes;
    constexpr A nan = std::numeric_limits<A>::quiet_NaN();
    const A at_label = valid ? static_cast<A>(x[label]) : nan;
    const A top = kernels::row_max<A>(classes, static_cast<A>(x[0]),
                                      [x](std::int64_t i) { return static_cast<A>(x[i]); });
    A total{0};
    if constexpr (std::is_same_v<T, A>) {
      if (d != nullptr) {
        // The exponentials wait in the gradient's place.
        total = kernels::row_sum<A>(classes, [x, d, top](std::int64_t i) {
          const A e = kernels::exp_nonpositive(x[i] - top);
          d[i] = e;
          return e;
        });
        const A scale = valid ? w / total : nan;
        KRAMA_VECTOR_LOOP
        for (std::int64_t i = 0; i < classes; ++i) d[i] = d[i] * scale - even;
      } else {
        total = exponentials(x, top);
      }
    } else {
      total = exponentials(x, top);
      if (d != nullptr) {
        const A scale = valid ? w / total : nan;
        const auto write = [x, d, top, scale, even](std::int64_t i) {
          d[i] =
              static_cast<T>(kernels::exp_nonpositive(static_cast<A>(x[i]) - top) * scale - even);
        };
        KRAMA_VECTOR_LOOP
        for (std::int64_t i = 0; i < classes; ++i) write(i);
      }
    }
    if (d != nullptr && valid) {
      // From the unrounded probability: near 1, p - 1 is what is left of it.
      const A p = kernels::exp_nonpositive(at_label - top) / total;
      d[label] = static_cast<T>(w * (p - A{1}) + (w * smoothing - even));
    }
    double loss = Kokkos::log(static_cast<double>(total)) +
                  (static_cast<double>(top) - static_cast<double>(at_label));
    if (smoothing > A{0}) {
      // The mean of -log p over the classes, instead of a part of the label's.
      const A below = kernels::row_sum<A>(
          classes, [x, top](std::int64_t i) { return top - static_cast<A>(x[i]); });
      const double mean = Kokkos::log(static_cast<double>(total)) +
                          static_cast<double>(below) / static_cast<double>(classes);
      loss += static_cast<double>(smoothing) * (mean - loss);
    }
    return {static_cast<double>(w) * loss, static_cast<double>(w)};
  }

  KOKKOS_FUNCTION A exponentials(const T* x, A top) const {
    return kernels::row_sum<A>(classes, [x, top](std::int64_t i) {
      return kernels::exp_nonpositive(static_cast<A>(x[i]) - top);
    });
  }
};

}  // namespace detail

/// Cross-entropy of a softmax over the columns (logits, any finite size) against one label a row:
/// l_r = log(sum_c exp(x_rc)) - x_r,label and dx_rc = w_r (softmax(x_r)_c - [c = label]). One pass
/// over a row in cache; probabilities are never stored in T. Rows whose label is `ignore_index`, or
/// whose weight is 0, take no part: weight 0, gradient 0. A batch of nothing but such rows has loss
/// sum 0 and weight 0. The label -1 is not special: it makes the loss NaN, as any label outside
/// [0, columns) does. Logits may be -inf (a class that cannot be), unless labels are smoothed.
///
/// With `label_smoothing` s (Szegedy et al. 2016, arXiv:1512.00567) the target is
/// (1 - s) [c = label] + s / columns, and l_r = (1 - s) (-log p_label) + s mean_c(-log p_c).
struct CrossEntropy {
  std::int32_t ignore_index = -100;
  double label_smoothing = 0.0;

  static constexpr std::string_view type_name = "cross_entropy";
  static constexpr Targets targets = Targets::per_row;
  template <class T>
  using target = std::int32_t;

  [[nodiscard]] std::int64_t scratch_elements(std::int64_t rows) const {
    return loss_scratch_elements(rows);
  }

  template <Device D, class T>
  void operator()(const exec_of<D>& exec, Ref<const T, 2, D> outputs,
                  Ref<const std::int32_t, 1, D> labels, Ref<const accum_t<T>, 1, D> weights,
                  Ref<double, 1, D> sums, Ref<double, 1, D> scratch, Ref<T, 2, D> d_outputs) const {
    KRAMA_EXPECTS(labels.size() == outputs.extent(0),
                  "cross_entropy: {} labels for logits {}; one a row is wanted", labels.size(),
                  to_string(outputs.extents()));
    KRAMA_EXPECTS(outputs.extent(1) > 0, "cross_entropy: logits {} have no classes",
                  to_string(outputs.extents()));
    KRAMA_EXPECTS(label_smoothing >= 0.0 && label_smoothing < 1.0,
                  "cross_entropy: label_smoothing must be in [0, 1), found {}", label_smoothing);
    loss_over_rows<D>(exec, "krama::nn::cross_entropy", outputs.extent(0),
                      detail::CrossEntropyRow<T>{outputs.data(), labels.data(), weights.data(),
                                                 d_outputs.data(), outputs.extent(1), ignore_index,
                                                 static_cast<accum_t<T>>(label_smoothing)},
                      sums, scratch);
  }
};

}  // namespace krama::nn
