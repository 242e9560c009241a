// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/conv_door.hpp>
#include <krama/kernels/detail/conv_onednn.hpp>
#include <krama/kernels/detail/conv_portable.hpp>

/// Convolutions (cross-correlations) of images with channels innermost; shapes as in `ConvSizes`.
/// One door, two ways through it: oneDNN on the host's OpenMP threads, Krama's own everywhere.
namespace krama::kernels {

namespace detail {

/// oneDNN may compute convolutions of `T` on `E`.
template <ExecutionSpace E, class T>
inline constexpr bool conv_vendor = vendor_space<E> && conv_onednn_takes<T>;

#if KRAMA_HAS_ONEDNN
/// The rule: whether a pass goes to oneDNN when nobody forces a door. Fixed, so that a job computes
/// the same bits every time. Few places do not repay the turning of the weights; gradients of weights
/// are fast with channels innermost only while these are few. Measured with `bench_conv "" 0.4 doors`.
inline bool conv_rule(const ConvSizes& s, ConvPass pass) {
  if (s.groups > 1) return true;
  if (s.window.places() < 512) return false;
  if (pass != ConvPass::weight_grad) return true;
  return !s.pointwise() && s.in_channels + s.out_channels <= 192;
}

/// Tries oneDNN; false when it is not wanted or does not do this convolution.
template <ExecutionSpace E, class T>
bool try_onednn(const E& exec, ConvPass pass, const ConvSizes& s, const T* x, const void* w,
                const T* bias, const T* y, void* scratch) {
  if constexpr (conv_vendor<E, T>) {
    const ConvDoor door = chosen_conv_door();
    const bool wanted = door == ConvDoor::automatic ? conv_rule(s, pass) : door == ConvDoor::onednn;
    if (!wanted || s.window.places() == 0 || inside_parallel_region()) return false;
    return kokkos_ext::library_call(exec, "krama::kernels::conv", [&] {
      const VendorThreads threads(exec.concurrency());
      return conv_onednn<T>(pass, s, x, w, bias, y, scratch, threads.count());
    });
  }
  return false;
}
#endif

}  // namespace detail

/// Elements of accum_t<T> that each of the three functions below wants as scratch on `E`; not more
/// for a smaller batch.
template <ExecutionSpace E, class T>
std::int64_t conv_scratch(const ConvSizes& s) {
  const std::int64_t own = detail::portable_conv_scratch<T>(s);
  if constexpr (detail::conv_vendor<E, T>) {
    const std::int64_t packed = detail::packed_weights(s);
    return packed > own ? packed : own;
  }
  return own;
}

/// y = x * w + bias (null: none). Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void conv_forward(const E& exec, const ConvSizes& s, TensorRef<const T, 4, M> x,
                  TensorRef<const T, 4, M> w, TensorRef<const T, 1, M> bias, TensorRef<T, 4, M> y,
                  accum_t<T>* scratch) {
#if KRAMA_HAS_ONEDNN
  if (detail::try_onednn(exec, detail::ConvPass::forward, s, x.data(), w.data(), bias.data(),
                         static_cast<const T*>(y.data()), scratch)) {
    return;
  }
#endif
  detail::portable_conv_forward(exec, s, x, w, bias, y, scratch);
}

/// dx = what dy sends back through w; `bias` (null: none) is added to every pixel, which makes it the
/// forward of a transposed convolution. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void conv_input_grad(const E& exec, const ConvSizes& s, TensorRef<const T, 4, M> dy,
                     TensorRef<const T, 4, M> w, TensorRef<const T, 1, M> bias,
                     TensorRef<T, 4, M> dx, accum_t<T>* scratch) {
#if KRAMA_HAS_ONEDNN
  if (detail::try_onednn(exec, detail::ConvPass::input_grad, s, static_cast<const T*>(dx.data()),
                         w.data(), static_cast<const T*>(nullptr), dy.data(), scratch)) {
    if (!bias.null()) {
      detail::put_bias(exec, s.window.in_pixels(), s.in_channels, bias.data(), dx.data(), true);
    }
    return;
  }
#endif
  detail::portable_conv_input_grad(exec, s, dy, w, bias, dx, scratch);
}

/// dw += sum over places of dy times what the place reads. Asynchronous on `exec`.
template <ExecutionSpace E, class T, MemorySpace M>
  requires AccessibleFrom<M, E>
void conv_weight_grad(const E& exec, const ConvSizes& s, TensorRef<const T, 4, M> x,
                      TensorRef<const T, 4, M> dy, accum_t<T>* dw, accum_t<T>* scratch) {
#if KRAMA_HAS_ONEDNN
  if (detail::try_onednn(exec, detail::ConvPass::weight_grad, s, x.data(), dw,
                         static_cast<const T*>(nullptr), dy.data(), scratch)) {
    return;
  }
#endif
  detail::portable_conv_weight_grad(exec, s, x, dy, dw, scratch);
}

}  // namespace krama::kernels
