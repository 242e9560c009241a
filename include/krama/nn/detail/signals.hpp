// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/extents.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// Signals (samples, length, channels) as images of height 1: layers of signals are those of images.
namespace krama::nn::detail {

template <class U, class M>
TensorRef<U, 4, M> as_images(const TensorRef<U, 3, M>& x) {
  return {x.data(), {x.extent(0), 1, x.extent(1), x.extent(2)}};
}

/// The same of a shape of rank 3.
inline Shape as_images(const Shape& in) { return {in[0], 1, in[1], in[2]}; }

}  // namespace krama::nn::detail
