// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>

#include <krama/core/random.hpp>
#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

namespace detail {

/// Four random words serve four consecutive logical elements (see `uniform`). On hosts a block
/// makes the words of all its elements first, in a loop that vectorises, and applies them in
/// another.
template <class T>
struct DropoutBlock {
  static constexpr std::int64_t block = 1024;  ///< logical elements; a multiple of 4
  using A = accum_t<T>;
  const T* in;
  T* out;
  std::int64_t n;
  std::uint64_t first;  ///< logical index of element 0
  RandomKey key;
  std::uint32_t threshold;
  A scale;

  KOKKOS_FUNCTION void operator()(std::int64_t b) const {
    std::uint32_t words[block];
    // Blocks begin at logical indices that are multiples of 4, so before element 0 if need be.
    const auto skipped = static_cast<std::int64_t>(first & 3U);
    const std::int64_t begin = b * block - skipped;
    const std::uint64_t quad =
        (first - static_cast<std::uint64_t>(skipped) + static_cast<std::uint64_t>(b * block)) >> 2;
    const RandomKey k = key;
    KRAMA_VECTOR_LOOP
    for (std::int64_t q = 0; q < block / 4; ++q) {
      const auto w = philox(k, quad + static_cast<std::uint64_t>(q));
      words[4 * q] = w[0];
      words[4 * q + 1] = w[1];
      words[4 * q + 2] = w[2];
      words[4 * q + 3] = w[3];
    }
    const std::int64_t from = begin < 0 ? 0 : begin;
    const std::int64_t to = begin + block < n ? begin + block : n;
    const T* x = in;
    T* y = out;
    const std::uint32_t limit = threshold;
    const A factor = scale;
    // A product instead of a choice: compilers would branch on it, at random.
    const auto apply = [x, y, &words, begin, limit, factor](std::int64_t i) {
      const auto kept = static_cast<std::int32_t>((words[i - begin] >> 8) >= limit);
      y[i] = static_cast<T>(static_cast<A>(x[i]) * (static_cast<A>(kept) * factor));
    };
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = from; i < to; ++i) apply(i);
  }
};

}  // namespace detail

/// Dropout (Srivastava et al. 2014), inverted: in training y = x / (1 - rate) with probability
/// 1 - rate, else 0; otherwise y = x. dx = dy times the same factor. The mask is not stored:
/// backward makes it again from (seed, step, layer, logical element), where the logical element is
/// (position of the sample in the global batch) * (elements per sample) + (element of the sample).
/// So it is the same for any number of threads and ranks, any split into micro-batches, in
/// recomputation and after resuming. An element is kept when its `uniform` number is at least
/// `rate`.
struct Dropout {
  double rate = 0.1;

  static constexpr std::string_view type_name = "dropout";
  static constexpr Saves saves = Saves::none;
  static constexpr bool in_place = true;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(rate >= 0.0 && rate < 1.0, "dropout: the rate must be in [0, 1), found {}", rate);
    return in;
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    apply(ctx, "krama::nn::dropout::forward", x, y);
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Dropout, D, T>& /*saved*/,
                Ref<const T, 1, D> dy, Ref<T, 1, D> dx) const {
    if (!dx.null()) apply(ctx, "krama::nn::dropout::backward", dy, dx);
  }

  /// to = from times the mask's factors.
  template <Device D, class T>
  void apply(const Context<D, T>& ctx, const char* label, const Ref<const T, 1, D>& from,
             const Ref<T, 1, D>& to) const {
    using A = accum_t<T>;
    const T* in = from.data();
    T* out = to.data();
    const std::int64_t n = to.size();
    if (n == 0) return;
    if (rate == 0.0 || !ctx.is_training()) {
      if (in == out) return;
      kernels::for_each(ctx.exec(), label, n, KOKKOS_LAMBDA(std::int64_t i) { out[i] = in[i]; });
      return;
    }
    const nn::BatchInfo& batch = ctx.batch();
    KRAMA_EXPECTS(batch.samples > 0 && n % batch.samples == 0,
                  "dropout: {} elements do not divide into {} samples", n, batch.samples);
    const auto first = static_cast<std::uint64_t>(batch.first_sample * (n / batch.samples));
    const RandomKey key = ctx.random_key();
    // uniform() has 24 bits, so u >= rate is a comparison of integers.
    const auto threshold = static_cast<std::uint32_t>(std::ceil(rate * 0x1p24));
    const A scale = static_cast<A>(1.0 / (1.0 - rate));
    if constexpr (kokkos_ext::is_host_space<exec_of<D>>) {
      using Block = detail::DropoutBlock<T>;
      const std::int64_t blocks =
          (n + static_cast<std::int64_t>(first & 3U) + Block::block - 1) / Block::block;
      kokkos_ext::launch(ctx.exec(), label, blocks,
                         Block{in, out, n, first, key, threshold, scale});
    } else {
      kokkos_ext::launch(
          ctx.exec(), label, n, KOKKOS_LAMBDA(std::int64_t i) {
            const std::uint64_t index = first + static_cast<std::uint64_t>(i);
            const auto word = philox(key, index >> 2)[static_cast<std::size_t>(index & 3U)];
            out[i] =
                static_cast<T>(static_cast<A>(in[i]) * ((word >> 8) >= threshold ? scale : A{0}));
          });
    }
  }
};

}  // namespace krama::nn
