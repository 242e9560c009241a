// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/conv_depthwise.hpp>
#include <krama/kernels/detail/conv_sizes.hpp>
#include <krama/kernels/detail/im2col.hpp>
#include <krama/kernels/for_each_2d.hpp>
#include <krama/kernels/gemm.hpp>

/// Krama's own convolutions, the reference of all others. Patches of a bounded part of the batch at a
/// time, multiplied with the weights; without patches where a window is one pixel; depthwise
/// directly. No atomics: bits do not depend on threads.
namespace krama::kernels::detail {

/// y (rows, columns) = bias, or 0 when null; `add`: y += bias.
template <ExecutionSpace E, class T>
void put_bias(const E& exec, std::int64_t rows, std::int64_t columns, const T* bias, T* y,
              bool add) {
  using A = accum_t<T>;
  for_each_2d(
      exec, "krama::kernels::conv::bias", rows, columns,
      KOKKOS_LAMBDA(std::int64_t r, std::int64_t c) {
        const A b = bias == nullptr ? A{0} : static_cast<A>(bias[c]);
        T* to = y + r * columns + c;
        *to = add ? static_cast<T>(static_cast<A>(*to) + b) : static_cast<T>(b);
      });
}

/// y (places, out_channels) = patches w^T + bias.
template <ExecutionSpace E, class T, MemorySpace M>
void multiply_patches(const E& exec, const ConvSizes& s, std::int64_t places, const T* patches,
                      TensorRef<const T, 4, M> w, TensorRef<const T, 1, M> bias, T* y) {
  const std::int64_t depth = s.depth();
  if (s.groups == 1) {
    linear_forward(exec, TensorRef<const T, 2, M>(patches, {places, depth}),
                   TensorRef<const T, 2, M>(w.data(), {s.out_channels, depth}), bias,
                   TensorRef<T, 2, M>(y, {places, s.out_channels}));
    return;
  }
  batched_gemm_strided(exec, Op::none, Op::transpose, places, s.group_out(), depth, accum_t<T>{1},
                       patches, s.patch(), depth, w.data(), depth, s.group_out() * depth,
                       accum_t<T>{0}, y, s.out_channels, s.group_out(), s.groups);
  if (!bias.null()) put_bias(exec, places, s.out_channels, bias.data(), y, true);
}

/// out (places, patch) = dy w, of every group.
template <ExecutionSpace E, class T, class TC>
void patch_grads(const E& exec, const ConvSizes& s, std::int64_t places, const T* dy, const T* w,
                 TC* out) {
  batched_gemm_strided(exec, Op::none, Op::none, places, s.depth(), s.group_out(), accum_t<T>{1},
                       dy, s.out_channels, s.group_out(), w, s.depth(), s.group_out() * s.depth(),
                       accum_t<T>{0}, out, s.patch(), s.depth(), s.groups);
}

/// Elements of accum_t<T> that each of the three functions below wants as scratch.
template <class T>
std::int64_t portable_conv_scratch(const ConvSizes& s) {
  if (s.pointwise() && !s.depthwise()) return 0;
  if (s.depthwise()) return depthwise_scratch(s);
  return checked_product(largest_tile<accum_t<T>>(s).places(s), s.patch());
}

/// y = x * w + bias (null: none). Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void portable_conv_forward(const E& exec, const ConvSizes& s, TensorRef<const T, 4, M> x,
                           TensorRef<const T, 4, M> w, TensorRef<const T, 1, M> bias,
                           TensorRef<T, 4, M> y, accum_t<T>* scratch) {
  if (s.depthwise()) {
    depthwise_forward(exec, s, x.data(), w.data(), bias.data(), y.data(), scratch);
    return;
  }
  if (s.pointwise()) {
    multiply_patches(exec, s, s.window.places(), x.data(), w, bias, y.data());
    return;
  }
  for_each_tile<accum_t<T>>(s, [&](const ConvTile& tile) {
    T* patches = reinterpret_cast<T*>(scratch);
    make_patches(exec, s, tile, x.data(), patches);
    multiply_patches(exec, s, tile.places(s), static_cast<const T*>(patches), w, bias,
                     y.data() + tile.first_place(s) * s.out_channels);
  });
}

/// dx = what dy sends back through w; `bias` (null: none) is added to every pixel, which makes it the
/// forward of a transposed convolution. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void portable_conv_input_grad(const E& exec, const ConvSizes& s, TensorRef<const T, 4, M> dy,
                              TensorRef<const T, 4, M> w, TensorRef<const T, 1, M> bias,
                              TensorRef<T, 4, M> dx, accum_t<T>* scratch) {
  const std::int64_t pixels = s.window.in_pixels();
  if (s.depthwise()) {
    depthwise_input_grad(exec, s, dy.data(), w.data(), bias.data(), dx.data(), scratch);
    return;
  }
  if (s.pointwise()) {
    patch_grads(exec, s, pixels, dy.data(), w.data(), dx.data());
    if (!bias.null()) put_bias(exec, pixels, s.in_channels, bias.data(), dx.data(), true);
    return;
  }
  // Parts of an image overlap in dx.
  const bool add = largest_tile<accum_t<T>>(s).rows < s.window.out_h;
  if (add) put_bias(exec, pixels, s.in_channels, bias.data(), dx.data(), false);
  for_each_tile<accum_t<T>>(s, [&](const ConvTile& tile) {
    patch_grads(exec, s, tile.places(s), dy.data() + tile.first_place(s) * s.out_channels, w.data(),
                scratch);
    collect_patches(exec, s, tile, static_cast<const accum_t<T>*>(scratch), bias.data(), dx.data(),
                    add);
  });
}

/// dw += sum over places of dy times what the place reads. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void portable_conv_weight_grad(const E& exec, const ConvSizes& s, TensorRef<const T, 4, M> x,
                               TensorRef<const T, 4, M> dy, accum_t<T>* dw, accum_t<T>* scratch) {
  if (s.depthwise()) {
    depthwise_weight_grad(exec, s, x.data(), dy.data(), dw, scratch);
    return;
  }
  const auto add_product = [&](std::int64_t places, const T* patches, const T* up) {
    batched_gemm_strided(exec, Op::transpose, Op::none, s.group_out(), s.depth(), places,
                         accum_t<T>{1}, up, s.out_channels, s.group_out(), patches, s.patch(),
                         s.depth(), accum_t<T>{1}, dw, s.depth(), s.group_out() * s.depth(),
                         s.groups);
  };
  if (s.pointwise()) {
    add_product(s.window.places(), x.data(), dy.data());
    return;
  }
  for_each_tile<accum_t<T>>(s, [&](const ConvTile& tile) {
    T* patches = reinterpret_cast<T*>(scratch);
    make_patches(exec, s, tile, x.data(), patches);
    add_product(tile.places(s), patches, dy.data() + tile.first_place(s) * s.out_channels);
  });
}

}  // namespace krama::kernels::detail
