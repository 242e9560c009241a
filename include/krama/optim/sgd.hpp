// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>

#include <krama/optim/optimizer.hpp>

namespace krama::optim {

namespace detail {

template <class A>
struct SgdElement {
  A* w;
  const A* g;
  A* velocity;
  A grad_scale, momentum, lr;
  A coupled_decay;  ///< added to the gradient, times the value
  A kept;           ///< factor of the value before the step: 1 - lr * decay
  A ahead;          ///< factor of the velocity in the step: Nesterov: momentum; else 1
  A direct;         ///< factor of the gradient in the step: Nesterov: 1; else 0

  struct Constants {
    A coupled_decay, kept;
  };
  KOKKOS_FUNCTION Constants of(bool decays) const {
    return decays ? Constants{coupled_decay, kept} : Constants{A{0}, A{1}};
  }
  KOKKOS_FUNCTION void operator()(const Constants& c, std::int64_t i) const {
    const A value = w[i];
    const A grad = Kokkos::fma(c.coupled_decay, value, g[i] * grad_scale);
    const A speed = Kokkos::fma(momentum, velocity[i], grad);
    velocity[i] = speed;
    const A direction = Kokkos::fma(ahead, speed, direct * grad);
    w[i] = Kokkos::fma(-lr, direction, value * c.kept);
  }
};

}  // namespace detail

/// Stochastic gradient descent with momentum (Polyak 1964), in the form of Sutskever et al. 2013 as
/// PyTorch has it:
///   velocity <- momentum velocity + g;  w <- w - lr velocity
/// Nesterov: w <- w - lr (g + momentum velocity).
struct Sgd {
  double lr = 1e-2;  ///< where there is no schedule
  double momentum = 0.0;
  bool nesterov = false;
  double l2 = 0.0;               ///< coupled: l2 * w is added to the gradient
  double decoupled_decay = 0.0;  ///< w is multiplied by 1 - lr * decay before the step

  static constexpr std::string_view type_name = "sgd";
  static constexpr std::size_t states = 1;
  static constexpr std::array<std::string_view, 1> state_names = {"velocity"};

  /// Asynchronous on `exec`.
  template <Device D, class A>
  void update(const exec_of<D>& exec, const UpdateRange<A, mem_of<D>>& range,
              const UpdateScalars& s) const {
    KRAMA_EXPECTS(!nesterov || momentum > 0.0, "sgd: Nesterov's form needs momentum above 0");
    detail::SgdElement<A> e{};
    e.w = range.values.data();
    e.g = range.grads.data();
    e.velocity = range.states[0].data();
    e.grad_scale = static_cast<A>(s.grad_scale);
    e.momentum = static_cast<A>(momentum);
    e.lr = static_cast<A>(s.lr);
    e.coupled_decay = static_cast<A>(l2);
    e.kept = static_cast<A>(std::fma(-s.lr, decoupled_decay, 1.0));
    e.ahead = static_cast<A>(nesterov ? momentum : 1.0);
    e.direct = static_cast<A>(nesterov ? 1.0 : 0.0);
    update_elements(exec, "krama::optim::sgd::update", range, states, e);
  }
};

static_assert(Optimizer<Sgd>);

}  // namespace krama::optim
