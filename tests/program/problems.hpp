// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <krama/models/gpt.hpp>
#include <krama/models/mlp.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/nn/layers/relu.hpp>
#include <krama/nn/losses/cross_entropy.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/program/executor.hpp>
#include <krama/tensor/copy.hpp>

#include <cmath>
#include <vector>

#include "support/same_bits.hpp"
#include "support/test_space.hpp"

/// Small training problems with data that any rank can make for itself.
namespace program_test {

using krama::DType;
using krama::Shape;
using krama::test::same_bits;

/// A global batch of inputs and targets; rows of weight 0 and ignored targets included.
struct Data {
  std::int64_t samples = 0;
  std::int64_t inputs_per_sample = 0;
  std::int64_t rows_per_sample = 1;
  bool indices = false;
  std::vector<double> x;
  std::vector<std::int32_t> y;
  std::vector<double> weights;
};

inline double u(std::uint32_t stream, std::size_t i) {
  return static_cast<double>(krama::uniform({99, stream, 0}, i));
}

inline Data mlp_data(std::int64_t samples, std::int64_t features, std::int32_t classes) {
  Data d{samples, features, 1, false, {}, {}, {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples * features); ++i) {
    d.x.push_back(2.0 * u(1, i) - 1.0);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
    // One in seven is ignored, and weights differ, so that a mean of means is wrong.
    d.y.push_back(i % 7 == 3 ? -100 : static_cast<std::int32_t>(u(2, i) * classes));
    d.weights.push_back(0.25 + u(3, i));
  }
  return d;
}

inline Data text_data(std::int64_t samples, std::int64_t context, std::int32_t vocabulary) {
  Data d{samples, context, context, true, {}, {}, {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(samples * context); ++i) {
    d.x.push_back(std::floor(u(4, i) * vocabulary));
    d.y.push_back(i % 11 == 5 ? -100 : static_cast<std::int32_t>(u(5, i) * vocabulary));
    d.weights.push_back(1.0);
  }
  return d;
}

/// A feed of samples [first, first + count) of `d` in micro-batches.
template <class E>
auto feed(const E& exec, const Data& d, std::int64_t first, std::int64_t count,
          std::int64_t micro_batch) {
  return [=, &d](int micro, const auto& to) {
    const std::int64_t begin = first + micro * micro_batch;
    const std::int64_t n = std::min(micro_batch, first + count - begin);
    const auto x0 = static_cast<std::size_t>(begin * d.inputs_per_sample);
    const auto xn = static_cast<std::size_t>(n * d.inputs_per_sample);
    const auto y0 = static_cast<std::size_t>(begin * d.rows_per_sample);
    const auto yn = static_cast<std::size_t>(n * d.rows_per_sample);
    if (d.indices) {
      std::vector<std::int32_t> x;
      for (std::size_t i = 0; i < xn; ++i) x.push_back(static_cast<std::int32_t>(d.x[x0 + i]));
      krama::upload(exec, to.input.template as<std::int32_t, 1>(),
                    std::span<const std::int32_t>(x));
    } else if (to.input.dtype == DType::f64) {
      krama::upload(exec, to.input.template as<double, 1>(),
                    std::span<const double>(d.x.data() + x0, xn));
    } else if (to.input.dtype == DType::f16) {
      std::vector<krama::f16> x;
      for (std::size_t i = 0; i < xn; ++i) x.emplace_back(static_cast<float>(d.x[x0 + i]));
      krama::upload(exec, to.input.template as<krama::f16, 1>(), std::span<const krama::f16>(x));
    } else {
      std::vector<float> x;
      for (std::size_t i = 0; i < xn; ++i) x.push_back(static_cast<float>(d.x[x0 + i]));
      krama::upload(exec, to.input.template as<float, 1>(), std::span<const float>(x));
    }
    krama::upload(exec, to.targets, std::span<const std::int32_t>(d.y.data() + y0, yn));
    using A = typename std::remove_cvref_t<decltype(to.weights)>::value_type;
    std::vector<A> w;
    for (std::size_t i = 0; i < yn; ++i) w.push_back(static_cast<A>(d.weights[y0 + i]));
    krama::upload(exec, to.weights, std::span<const A>(w));
  };
}

/// Gradients of the global mean loss, all of them on every rank, in double.
struct Gradients {
  std::vector<double> values;  ///< flat, with padding
  krama::StepOutcome outcome;
};

/// One step's gradients with the global batch split into `counts` samples a rank.
template <class D, class T, class Comm>
Gradients gradients(const krama::nn::Model<D, T>& model,
                    krama::ParamStore<T, krama::mem_of<D>>& store, Comm comm, const Data& d,
                    const std::vector<std::int64_t>& counts,
                    const krama::ExecutorOptions& options) {
  using M = krama::mem_of<D>;
  using A = krama::accum_t<T>;
  const krama::exec_of<D> exec;
  krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::Sgd, Comm> executor(
      exec, model, store, {}, {}, comm, options);
  std::int64_t first = 0;
  for (int r = 0; r < comm.rank(); ++r) first += counts[static_cast<std::size_t>(r)];
  const std::int64_t mine = counts[static_cast<std::size_t>(comm.rank())];
  Gradients g;
  g.outcome =
      executor.gradients_only(5, first, mine, feed(exec, d, first, mine, options.micro_batch));
  for (int k = 0; k < executor.shard().bucket_count(); ++k) {
    const auto& b = executor.shard().bucket(k);
    comm.allgather(exec, krama::TensorRef<A, 1, M>(store.grads().data() + b.begin, {b.size()}),
                   executor.shard().partition(k), "test gradients");
  }
  for (const A v : krama::download(exec, store.grads())) {
    g.values.push_back(static_cast<double>(v) / g.outcome.weight);
  }
  return g;
}

/// ||a - b|| and ||b|| over one tensor.
inline double distance(const std::vector<double>& a, const std::vector<double>& b,
                       const krama::Segment& s) {
  double sum = 0;
  for (std::int64_t i = s.offset; i < s.offset + s.size; ++i) {
    const double d = a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)];
    sum += d * d;
  }
  return std::sqrt(sum);
}
inline double norm(const std::vector<double>& a, const krama::Segment& s) {
  return distance(a, std::vector<double>(a.size(), 0.0), s);
}

/// Everything a training problem needs, in type T.
struct Mlp {
  static Data data() { return mlp_data(29, 20, 6); }
  template <class D, class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::mlp<D, T>({{20, 33, 6}});
  }
};
/// Reads what Mlp reads; batch normalisation in two blocks.
struct Normed {
  static Data data() { return Mlp::data(); }
  template <class D, class T>
  static krama::nn::Model<D, T> model(bool synchronised = true) {
    using namespace krama::nn;
    const BatchNorm norm{.channels = 14, .momentum = 0.3, .synchronised = synchronised};
    Model<D, T> m;
    auto x = m.input("x", {20});
    for (const auto& [name, inputs] : {std::pair("first", 20), std::pair("second", 14)}) {
      const Linear linear{.in_features = inputs, .out_features = 14, .bias = false};
      x = m.block(name, chain(named("linear", linear), named("norm", norm), Relu{}), x);
    }
    m.block("head", Linear{.in_features = 14, .out_features = 6}, x);
    return m;
  }
};
struct Gpt {
  static Data data() { return text_data(11, 12, 17); }
  template <class D, class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::gpt<D, T>(
        {.vocabulary = 17, .context = 12, .features = 16, .layers = 2, .heads = 2});
  }
};

/// A store whose values are those of the f32 model, so that references in f64 start from the same
/// numbers.
template <class D, class T, class Model>
krama::ParamStore<T, krama::mem_of<D>> same_store(const Model& model) {
  const krama::exec_of<D> exec;
  auto store = model.make_store(exec, 3);
  using A = krama::accum_t<T>;
  auto values = krama::download(exec, store.values());
  for (auto& v : values) v = static_cast<A>(static_cast<float>(v));
  krama::upload(exec, store.values(), std::span<const A>(values));
  store.refresh_working(exec);
  return store;
}

}  // namespace program_test
