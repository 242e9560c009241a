// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// (images, …) to (images, everything else), in the order in which it lies in memory: of an image
/// height, width, channels. In a chain the output shares the input's memory where nobody keeps the
/// input; then nothing is copied.
struct Flatten {
  static constexpr std::string_view type_name = "flatten";
  static constexpr Saves saves = Saves::none;
  static constexpr bool in_place = true;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 2, "flatten: wanted an input (images, …), found {}", to_string(in));
    std::int64_t features = 1;
    for (int i = 1; i < in.rank(); ++i) features = checked_product(features, in[i]);
    return {in[0], features};
  }
  [[nodiscard]] std::int64_t flops(const Shape& /*in*/) const { return 0; }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    if (x.data() != y.data()) take_over(ctx, x, y);
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Flatten, D, T>& /*saved*/,
                Ref<const T, 1, D> dy, Ref<T, 1, D> dx) const {
    if (!dx.null() && dx.data() != dy.data()) take_over(ctx, dy, dx);
  }

  template <Device D, class T>
  void take_over(const Context<D, T>& ctx, Ref<const T, 1, D> from, Ref<T, 1, D> to) const {
    const T* in = from.data();
    T* out = to.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::flatten", to.size(),
        KOKKOS_LAMBDA(std::int64_t i) { out[i] = in[i]; });
  }
};

}  // namespace krama::nn
