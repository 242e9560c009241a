// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/for_each_2d.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// SwiGLU (Shazeer 2020, arXiv:2002.05202) without its matrices: x = (a, b) along the last extent,
/// (…, 2F) -> (…, F), y = silu(a) b. The gate a comes first, so one Linear of 2F outputs before this
/// layer holds the gate's and the value's weights one behind the other.
/// da = dy b s(a) (1 + a (1 - s(a))), db = dy a s(a). Saves the input.
struct SwiGlu {
  static constexpr std::string_view type_name = "swiglu";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 2;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 1 && in[-1] % 2 == 0,
                  "swiglu: the last extent must be even (gate and value), found {}", to_string(in));
    return in.with(-1, in[-1] / 2);
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    using A = accum_t<T>;
    const T* in = x.data();
    T* out = y.data();
    const std::int64_t features = y.extent(1);
    kernels::for_each_2d(
        ctx.exec(), "krama::nn::swiglu::forward", y.extent(0), features,
        KOKKOS_LAMBDA(std::int64_t r, std::int64_t c) {
          const T* row = in + 2 * r * features;
          const A a = static_cast<A>(row[c]);
          const A b = static_cast<A>(row[features + c]);
          out[r * features + c] = static_cast<T>(a * kernels::sigmoid(a) * b);
        });
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<SwiGlu, D, T>& saved, Ref<const T, 2, D> dy,
                Ref<T, 2, D> dx) const {
    using A = accum_t<T>;
    if (dx.null()) return;
    const T* in = saved.x.data();
    const T* d_out = dy.data();
    T* d_in = dx.data();
    const std::int64_t features = dy.extent(1);
    kernels::for_each_2d(
        ctx.exec(), "krama::nn::swiglu::backward", dy.extent(0), features,
        KOKKOS_LAMBDA(std::int64_t r, std::int64_t c) {
          const T* row = in + 2 * r * features;
          T* d_row = d_in + 2 * r * features;
          const A a = static_cast<A>(row[c]);
          const A b = static_cast<A>(row[features + c]);
          const A d = static_cast<A>(d_out[r * features + c]);
          const A s = kernels::sigmoid(a);
          d_row[c] = static_cast<T>(d * b * (s * (A{1} + a * (A{1} - s))));
          d_row[features + c] = static_cast<T>(d * a * s);
        });
  }
};

}  // namespace krama::nn
