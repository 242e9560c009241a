// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <krama/program/executor.hpp>
#include <krama/train/data.hpp>

namespace krama::train {

/// Carries samples of a source into the micro-batches of an executor: host buffers that are reused,
/// one copy to the device. Waits for the copy, so the buffers may be filled again at once.
template <Device D, Scalar T, class Loss, DataSource Source>
class Feeder {
 public:
  Feeder(const exec_of<D>& exec, const Source& source) : exec_(exec), source_(&source) {}

  /// A feed for `Executor` that hands out `ids` in micro-batches of at most `micro_batch`.
  auto feed(std::span<const std::int64_t> ids, std::int64_t micro_batch) {
    return [this, ids, micro_batch](int micro, const MicroBatch<D, Loss, T>& to) {
      const auto begin = static_cast<std::size_t>(micro * micro_batch);
      const auto count = std::min(static_cast<std::size_t>(micro_batch), ids.size() - begin);
      fill(ids.subspan(begin, count), to);
    };
  }

 private:
  using M = mem_of<D>;
  using X = typename Source::input_type;
  using Y = typename Source::target_type;

  void fill(std::span<const std::int64_t> ids, const MicroBatch<D, Loss, T>& to) {
    const auto samples = static_cast<std::int64_t>(ids.size());
    x_.resize(static_cast<std::size_t>(samples * source_->input_shape().size()));
    y_.resize(static_cast<std::size_t>(samples * source_->targets_per_sample()));
    weights_.resize(static_cast<std::size_t>(samples * source_->rows_per_sample()));
    source_->fetch(ids, x_, y_, weights_);
    put<X>(to.input, x_);
    send(to.targets, y_, "targets");
    send(to.weights, weights_, "weights");
  }

  /// Floating inputs are converted to the compute type, indices are not.
  template <class V>
  void put(const AnyRef<M>& input, const std::vector<V>& values) {
    if constexpr (std::is_integral_v<V>) {
      send(input.template as<V, 1>(), values, "inputs");
    } else {
      send(input.template as<T, 1>(), values, "inputs");
    }
  }
  template <class U, class V>
  void send(const TensorRef<U, 1, M>& to, const std::vector<V>& values, const char* what) {
    KRAMA_EXPECTS(to.size() == static_cast<std::int64_t>(values.size()),
                  "the data source gives {} {} where the model takes {}", values.size(), what,
                  to.size());
    if constexpr (std::is_same_v<U, V>) {
      upload(exec_, to, std::span<const U>(values));
    } else {
      std::vector<U> converted;
      converted.reserve(values.size());
      for (const auto v : values) converted.push_back(static_cast<U>(static_cast<accum_t<T>>(v)));
      upload(exec_, to, std::span<const U>(converted));
    }
  }

  exec_of<D> exec_;
  const Source* source_;
  std::vector<X> x_;
  std::vector<Y> y_;
  std::vector<float> weights_;
};

}  // namespace krama::train
