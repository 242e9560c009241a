// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>

#include <krama/optim/optimizer.hpp>

namespace krama::optim {

namespace detail {

/// One element of Adam, with the decay in the gradient (coupled) or on the value (decoupled).
template <class A>
struct AdamElement {
  A* w;
  const A* g;
  A* m;
  A* v;
  A beta1, one_minus_beta1, beta2, one_minus_beta2;
  A grad_scale, step_size, inverse_root_correction, epsilon;
  A coupled_decay;  ///< added to the gradient, times the value
  A kept;           ///< factor of the value before the step: 1 - lr * decay

  struct Constants {
    A coupled_decay, kept;
  };
  KOKKOS_FUNCTION Constants of(bool decays) const {
    return decays ? Constants{coupled_decay, kept} : Constants{A{0}, A{1}};
  }
  KOKKOS_FUNCTION void operator()(const Constants& c, std::int64_t i) const {
    const A value = w[i];
    const A grad = Kokkos::fma(c.coupled_decay, value, g[i] * grad_scale);
    const A first = Kokkos::fma(beta1, m[i], one_minus_beta1 * grad);
    const A second = Kokkos::fma(beta2, v[i], one_minus_beta2 * grad * grad);
    m[i] = first;
    v[i] = second;
    // Never negative; saying so lets compilers do without the call that would set errno.
    const A root =
        Kokkos::fma(Kokkos::sqrt(Kokkos::fabs(second)), inverse_root_correction, epsilon);
    w[i] = Kokkos::fma(-step_size, first / root, value * c.kept);
  }
};

/// The scalars of Adam in step `s`; Kingma and Ba 2015 (arXiv:1412.6980), algorithm 1, with the
/// bias corrections taken out of the element formula.
template <class A, class Adam, MemorySpace M>
AdamElement<A> adam_element(const Adam& adam, const UpdateRange<A, M>& range,
                            const UpdateScalars& s, bool decoupled) {
  KRAMA_EXPECTS(s.step >= 1, "{}: steps count from 1, found {}", Adam::type_name, s.step);
  const double correction1 = 1.0 - power(adam.beta1, s.step);
  const double correction2 = 1.0 - power(adam.beta2, s.step);
  AdamElement<A> e{};
  e.w = range.values.data();
  e.g = range.grads.data();
  e.m = range.states[0].data();
  e.v = range.states[1].data();
  e.beta1 = static_cast<A>(adam.beta1);
  e.one_minus_beta1 = static_cast<A>(1.0 - adam.beta1);
  e.beta2 = static_cast<A>(adam.beta2);
  e.one_minus_beta2 = static_cast<A>(1.0 - adam.beta2);
  e.grad_scale = static_cast<A>(s.grad_scale);
  e.step_size = static_cast<A>(s.lr / correction1);
  e.inverse_root_correction = static_cast<A>(1.0 / std::sqrt(correction2));
  e.epsilon = static_cast<A>(adam.epsilon);
  e.coupled_decay = static_cast<A>(decoupled ? 0.0 : adam.weight_decay);
  e.kept = static_cast<A>(decoupled ? std::fma(-s.lr, adam.weight_decay, 1.0) : 1.0);
  return e;
}

}  // namespace detail

}  // namespace krama::optim
