// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/optim/detail/adam_element.hpp>

namespace krama::optim {

/// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101,
/// algorithm 2 in the form of PyTorch: the decay is multiplied by the learning rate).
///   w <- w (1 - lr decay);  m, v as Adam;  w <- w - lr m^ / (sqrt(v^) + epsilon)
/// Only chunks that decay are shrunk (matrices; not biases and norms).
struct AdamW {
  double lr = 1e-3;  ///< where there is no schedule
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;

  static constexpr std::string_view type_name = "adamw";
  static constexpr std::size_t states = 2;
  static constexpr std::array<std::string_view, 2> state_names = {"m", "v"};

  /// Asynchronous on `exec`.
  template <Device D, class A>
  void update(const exec_of<D>& exec, const UpdateRange<A, mem_of<D>>& range,
              const UpdateScalars& s) const {
    update_elements(exec, "krama::optim::adamw::update", range, states,
                    detail::adam_element(*this, range, s, true));
  }
};

static_assert(Optimizer<AdamW>);

}  // namespace krama::optim
