// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <concepts>
#include <cstdint>
#include <string_view>

#include <krama/core/concepts.hpp>
#include <krama/core/extents.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// A loss is a copyable aggregate, one file. It defines
///
///   static constexpr std::string_view type_name
///   template <class T> using target       element type of the targets when outputs are of type T
///   static constexpr Targets targets      how many there are
///   std::int64_t scratch_elements(std::int64_t rows) const       doubles it needs during one call
///   template <Device D, class T>
///   void operator()(exec, outputs, targets, weights, sums, scratch, d_outputs) const
///
/// Outputs are (rows, columns): a model's output with its leading extents multiplied together. The
/// call *adds* sum(w_r * l_r) to sums[0] and sum(w_r) to sums[1] and writes the gradient of that
/// sum (not of a mean) to d_outputs, unless that is null (evaluation). The step divides once, by
/// the weight of the whole global batch; so the split over ranks and micro-batches does not matter.
/// Asynchronous on `exec`; bits do not depend on the number of threads.
namespace krama::nn {

/// How many targets belong to outputs (rows, columns).
enum class Targets : std::uint8_t {
  per_row,    ///< one a row: labels
  per_output  ///< one an output: regression
};

/// Element type of the targets of loss L when the model computes in `T`.
template <class L, class T>
using target_of = typename L::template target<T>;

/// Number of targets for outputs of shape `out` (batch included).
template <class L>
std::int64_t target_elements(const Shape& out) {
  if constexpr (L::targets == Targets::per_output) {
    return out.size();
  } else {
    return out.template collapsed<2>()[0];
  }
}

/// What is expected of a loss whatever device and type it runs with.
template <class L>
concept LossSpec = std::copyable<L> && requires(const L& loss) {
  { L::type_name } -> std::convertible_to<std::string_view>;
  { L::targets } -> std::convertible_to<Targets>;
  { loss.scratch_elements(std::int64_t{1}) } -> std::convertible_to<std::int64_t>;
};

/// A loss that runs on device `D` for outputs of type `T`.
template <class L, class D, class T>
concept Loss =
    LossSpec<L> && Device<D> && Scalar<T> &&
    requires(const L& loss, const exec_of<D>& exec, Ref<const T, 2, D> outputs,
             Ref<const target_of<L, T>, 1, D> targets, Ref<const accum_t<T>, 1, D> weights,
             Ref<double, 1, D> sums, Ref<double, 1, D> scratch, Ref<T, 2, D> d_outputs) {
      loss.template operator()<D, T>(exec, outputs, targets, weights, sums, scratch, d_outputs);
    };

/// Loss and weight of one row, the weight already multiplied in.
struct RowLoss {
  double loss = 0.0;
  double weight = 0.0;
};

namespace detail {

/// Rows per block of the sum of a loss.
inline constexpr std::int64_t loss_block = 16;

/// Computes the rows of a block and leaves their sums, added in row order, in scratch.
template <class Row>
struct LossBlock {
  Row row;
  double* scratch;
  std::int64_t rows;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t begin = block * loss_block;
    const std::int64_t end = begin + loss_block < rows ? begin + loss_block : rows;
    RowLoss sum;
    for (std::int64_t r = begin; r < end; ++r) {
      const RowLoss one = row(r);
      sum.loss += one.loss;
      sum.weight += one.weight;
    }
    scratch[2 * block] = sum.loss;
    scratch[2 * block + 1] = sum.weight;
  }
};

/// Adds the blocks' sums in index order.
struct JoinLossBlocks {
  const double* scratch;
  double* sums;
  std::int64_t blocks;
  KOKKOS_FUNCTION void operator()(std::int64_t) const {
    RowLoss sum;
    for (std::int64_t b = 0; b < blocks; ++b) {
      sum.loss += scratch[2 * b];
      sum.weight += scratch[2 * b + 1];
    }
    sums[0] += sum.loss;
    sums[1] += sum.weight;
  }
};

}  // namespace detail

/// Doubles of scratch that `loss_over_rows` needs.
constexpr std::int64_t loss_scratch_elements(std::int64_t rows) {
  return 2 * ((rows + detail::loss_block - 1) / detail::loss_block);
}

/// For writing a loss: calls `RowLoss row(r)` for every row (a KOKKOS_FUNCTION that may also write
/// the row's gradient) and adds the sums to `sums` in a fixed order. Asynchronous on `exec`.
template <Device D, class Row>
void loss_over_rows(const exec_of<D>& exec, const char* label, std::int64_t rows, const Row& row,
                    const Ref<double, 1, D>& sums, const Ref<double, 1, D>& scratch) {
  if (rows == 0) return;
  KRAMA_EXPECTS(scratch.size() >= loss_scratch_elements(rows),
                "{}: {} doubles of scratch for {} rows; {} are needed", label, scratch.size(), rows,
                loss_scratch_elements(rows));
  KRAMA_EXPECTS(sums.size() == 2, "{}: sums must be [loss, weight], found {} elements", label,
                sums.size());
  const std::int64_t blocks = loss_scratch_elements(rows) / 2;
  kokkos_ext::launch(exec, label, blocks, detail::LossBlock<Row>{row, scratch.data(), rows});
  kokkos_ext::launch(exec, label, 1, detail::JoinLossBlocks{scratch.data(), sums.data(), blocks});
}

}  // namespace krama::nn
