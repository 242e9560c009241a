// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <krama/core/random.hpp>
#include <krama/tensor/copy.hpp>

namespace example {

/// Draws a byte from unnormalised log-probabilities; temperature 0 takes the likeliest.
inline std::int32_t sample(const std::vector<double>& logits, double temperature, double u) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0.0) return static_cast<std::int32_t>(likeliest - logits.begin());
  double total = 0.0;
  std::vector<double> p;
  for (const double l : logits) {
    p.push_back(std::exp((l - *likeliest) / temperature));
    total += p.back();
  }
  double left = u * total;
  for (std::size_t i = 0; i < p.size(); ++i) {
    left -= p[i];
    if (left < 0.0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(p.size() - 1);
}

/// Continues `prompt` by `count` bytes, one forward pass a byte over the last `context` bytes. The
/// executor's model must take one sample of `context` token numbers. On one rank, not collective.
template <class T, class Exec, class Executor>
std::string generate(const Exec& exec, Executor& executor, std::int64_t context, std::string prompt,
                     std::int64_t count, double temperature, std::uint64_t seed) {
  std::string text = prompt.empty() ? " " : std::move(prompt);
  for (std::int64_t k = 0; k < count; ++k) {
    const auto length = std::min(static_cast<std::int64_t>(text.size()), context);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(context), 0);
    for (std::int64_t t = 0; t < length; ++t) {
      // Attention is causal: what stands behind the last byte does not matter.
      tokens[static_cast<std::size_t>(t)] =
          static_cast<unsigned char>(text[text.size() - static_cast<std::size_t>(length - t)]);
    }
    const auto out = executor.predict(1, [&](int, const auto& to) {
      krama::upload(exec, to.input.template as<std::int32_t, 1>(),
                    std::span<const std::int32_t>(tokens));
    });
    const auto all = krama::download(exec, out.template as<T, 1>());
    const auto classes = static_cast<std::size_t>(out.shape[-1]);
    std::vector<double> logits;
    for (std::size_t c = 0; c < classes; ++c) {
      logits.push_back(static_cast<double>(
          static_cast<krama::accum_t<T>>(all[static_cast<std::size_t>(length - 1) * classes + c])));
    }
    const double u = krama::uniform({seed, 0x6e7eU, 0}, static_cast<std::uint64_t>(k));
    text.push_back(static_cast<char>(sample(logits, temperature, u)));
  }
  return text;
}

/// Bytes as they may be shown on a terminal.
inline std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += (u >= 32 && u < 127) || c == '\n' || c == '\t' ? c : '?';
  }
  return out;
}

}  // namespace example
