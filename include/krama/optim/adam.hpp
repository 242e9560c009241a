// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/optim/detail/adam_element.hpp>

namespace krama::optim {

/// Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1).
///   m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
///   w <- w - lr m^ / (sqrt(v^) + epsilon), with m^ = m / (1 - beta1^t), v^ = v / (1 - beta2^t)
/// `weight_decay` is coupled: decay * w is added to g before the moments, so it passes through the
/// normalisation. For decay that shrinks weights directly use AdamW.
struct Adam {
  double lr = 1e-3;  ///< where there is no schedule
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;

  static constexpr std::string_view type_name = "adam";
  static constexpr std::size_t states = 2;
  static constexpr std::array<std::string_view, 2> state_names = {"m", "v"};

  /// Asynchronous on `exec`.
  template <Device D, class A>
  void update(const exec_of<D>& exec, const UpdateRange<A, mem_of<D>>& range,
              const UpdateScalars& s) const {
    update_elements(exec, "krama::optim::adam::update", range, states,
                    detail::adam_element(*this, range, s, false));
  }
};

static_assert(Optimizer<Adam>);

}  // namespace krama::optim
