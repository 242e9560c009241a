// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// SiLU (swish): y = x s(x) with s the logistic function; dx = dy s(x) (1 + x (1 - s(x))). Saves
/// the input: the output does not determine it.
struct Silu {
  static constexpr std::string_view type_name = "silu";
  static constexpr Saves saves = Saves::input;

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    using A = accum_t<T>;
    const T* in = x.data();
    T* out = y.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::silu::forward", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
          const A v = static_cast<A>(in[i]);
          out[i] = static_cast<T>(v * kernels::sigmoid(v));
        });
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Silu, D, T>& saved, Ref<const T, 1, D> dy,
                Ref<T, 1, D> dx) const {
    using A = accum_t<T>;
    if (dx.null()) return;
    const T* in = saved.x.data();
    const T* d_out = dy.data();
    T* d_in = dx.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::silu::backward", dx.size(), KOKKOS_LAMBDA(std::int64_t i) {
          const A v = static_cast<A>(in[i]);
          const A s = kernels::sigmoid(v);
          d_in[i] = static_cast<T>(static_cast<A>(d_out[i]) * (s * (A{1} + v * (A{1} - s))));
        });
  }
};

}  // namespace krama::nn
