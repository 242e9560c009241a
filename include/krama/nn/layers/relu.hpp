// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// y = max(x, 0); dx = dy where y > 0. Saves the output only, so it may work in place.
struct Relu {
  static constexpr std::string_view type_name = "relu";
  static constexpr Saves saves = Saves::output;
  static constexpr bool in_place = true;

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    const T* in = x.data();
    T* out = y.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::relu::forward", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
          const T v = in[i];
          // Written so that NaN passes through.
          out[i] = static_cast<accum_t<T>>(v) < 0 ? T(0) : v;
        });
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Relu, D, T>& saved, Ref<const T, 1, D> dy,
                Ref<T, 1, D> dx) const {
    if (dx.null()) return;
    const T* out = saved.y.data();
    const T* d_out = dy.data();
    T* d_in = dx.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::relu::backward", dx.size(), KOKKOS_LAMBDA(std::int64_t i) {
          // Loaded whatever the sign: a load that depends on a comparison keeps compilers from
          // vectorising.
          const T d = d_out[i];
          d_in[i] = static_cast<accum_t<T>>(out[i]) > 0 ? d : T(0);
        });
  }
};

}  // namespace krama::nn
