// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fmt/format.h>
#include <string>

#include <krama/nn/model.hpp>

namespace krama::nn {

namespace detail {

/// A tied parameter is counted where it lives; buffers are not learnt.
inline std::int64_t counted(const ParamInfo& p) {
  return p.options.tie.empty() && !p.options.buffer ? p.extents.size() : 0;
}

}  // namespace detail

/// Parameters of a model: elements, a shared (tied) one once, without buffers. Allocates no weights.
template <Device D, Scalar T>
std::int64_t parameter_count(const Model<D, T>& model) {
  std::int64_t n = 0;
  for (const auto& p : model.params()) n += detail::counted(p);
  return n;
}

/// Parameters of block b; those that it shares with an earlier block are counted there.
template <Device D, Scalar T>
std::int64_t parameter_count(const Model<D, T>& model, int b) {
  const auto& block = model.block_at(b);
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < block.param_count(); ++i) {
    n += detail::counted(model.params()[static_cast<std::size_t>(block.first_param() + i)]);
  }
  return n;
}

/// Bytes that block b leaves for backward with `samples` samples, when nothing is recomputed: its
/// stash, and its output where its own backward or that of a reader needs it.
template <Device D, Scalar T>
std::int64_t saved_bytes(const Model<D, T>& model, int b, std::int64_t samples) {
  const auto needs = model.needs(b, samples);
  const auto& value = model.value(model.writes(b));
  bool kept = needs.reads_output;
  for (const int reader : value.readers) kept = kept || model.needs(reader, samples).reads_input;
  const Shape shape = model.shape(model.writes(b), samples);
  return needs.stash + (kept ? shape.size() * size_of(value.dtype) : 0);
}

/// Floating-point operations of one forward of the whole model with `samples` samples; a product and
/// its addition are two.
template <Device D, Scalar T>
std::int64_t flops(const Model<D, T>& model, std::int64_t samples) {
  std::int64_t n = 0;
  for (int b = 0; b < model.block_count(); ++b) n += model.flops(b, samples);
  return n;
}

/// A table: block, shape of its output, parameters, operations of forward, bytes kept for backward;
/// then the sums.
template <Device D, Scalar T>
std::string describe(const Model<D, T>& model, std::int64_t samples) {
  const auto row = [](const std::string& block, const std::string& output, const auto& parameters,
                      const auto& operations, const auto& bytes) {
    return fmt::format("{:<24} {:<24} {:>14} {:>16} {:>14}\n", block, output, parameters,
                       operations, bytes);
  };
  std::string text = row("block", "output", "parameters", "FLOPs forward", "bytes saved");
  std::int64_t bytes = 0;
  for (int b = 0; b < model.block_count(); ++b) {
    const std::int64_t saved = saved_bytes(model, b, samples);
    bytes += saved;
    text += row(model.block_name(b), to_string(model.shape(model.writes(b), samples)),
                parameter_count(model, b), model.flops(b, samples), saved);
  }
  return text + row("sum", "", parameter_count(model), flops(model, samples), bytes);
}

}  // namespace krama::nn
