// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// How GELU is computed: by the normal distribution, or by the tanh approximation that GPT-2 uses.
enum class GeluForm : std::uint8_t { erf, tanh };

namespace detail {

/// Phi(x) and phi(x) of the normal distribution.
template <class A>
struct NormalAt {
  A distribution, density;
};
template <class A>
KOKKOS_FORCEINLINE_FUNCTION NormalAt<A> normal_at(A x) {
  const A half_root = static_cast<A>(0.70710678118654752440);
  const A inverse_root = static_cast<A>(0.39894228040143267794);  // 1 / sqrt(2 pi)
  return {A{0.5} * (A{1} + kernels::erf(x * half_root)),
          inverse_root * kernels::exp_nonpositive(A{-0.5} * x * x)};
}

/// sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3); it equals (1 + tanh(u)) / 2 without the
/// cancellation for negative x.
template <class A>
KOKKOS_FORCEINLINE_FUNCTION A gelu_gate(A x) {
  const A two_c = static_cast<A>(1.5957691216057307117);  // 2 sqrt(2 / pi)
  return kernels::sigmoid(two_c * (x + static_cast<A>(0.044715) * x * x * x));
}

template <class A>
KOKKOS_FORCEINLINE_FUNCTION A gelu_slope(A x) {
  const A two_c = static_cast<A>(1.5957691216057307117);
  const A s = gelu_gate(x);
  // Bounded, because far out s (1 - s) is zero and x^2 may be infinite.
  const A square = x * x;
  const A bounded = square < static_cast<A>(1e30) ? square : static_cast<A>(1e30);
  const A inner = two_c * (A{1} + static_cast<A>(3.0 * 0.044715) * bounded);
  return s + x * (s * (A{1} - s)) * inner;
}

}  // namespace detail

/// GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415): y = x Phi(x); dx = dy (Phi(x) + x phi(x)).
/// tanh form: Phi(x) is replaced by (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which differs
/// from it by at most 2e-4. Saves the input: the output does not determine it.
struct Gelu {
  GeluForm approximation = GeluForm::erf;

  static constexpr std::string_view type_name = "gelu";
  static constexpr Saves saves = Saves::input;

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    using A = accum_t<T>;
    const T* in = x.data();
    T* out = y.data();
    if (approximation == GeluForm::erf) {
      kernels::for_each(
          ctx.exec(), "krama::nn::gelu::forward", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
            const A v = static_cast<A>(in[i]);
            const A half_root = static_cast<A>(0.70710678118654752440);
            out[i] = static_cast<T>(v * (A{0.5} * (A{1} + kernels::erf(v * half_root))));
          });
    } else {
      kernels::for_each(
          ctx.exec(), "krama::nn::gelu::forward", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
            const A v = static_cast<A>(in[i]);
            out[i] = static_cast<T>(v * detail::gelu_gate(v));
          });
    }
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Gelu, D, T>& saved, Ref<const T, 1, D> dy,
                Ref<T, 1, D> dx) const {
    using A = accum_t<T>;
    if (dx.null()) return;
    const T* in = saved.x.data();
    const T* d_out = dy.data();
    T* d_in = dx.data();
    if (approximation == GeluForm::erf) {
      kernels::for_each(
          ctx.exec(), "krama::nn::gelu::backward", dx.size(), KOKKOS_LAMBDA(std::int64_t i) {
            const A v = static_cast<A>(in[i]);
            const auto n = detail::normal_at(v);
            d_in[i] = static_cast<T>(static_cast<A>(d_out[i]) * (n.distribution + v * n.density));
          });
    } else {
      kernels::for_each(
          ctx.exec(), "krama::nn::gelu::backward", dx.size(), KOKKOS_LAMBDA(std::int64_t i) {
            const A v = static_cast<A>(in[i]);
            d_in[i] = static_cast<T>(static_cast<A>(d_out[i]) * detail::gelu_slope(v));
          });
    }
  }
};

}  // namespace krama::nn
