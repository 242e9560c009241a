// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <krama/kernels/for_each_2d.hpp>

namespace krama::kernels {

/// A stack of images (images, height, width, channels) within a tensor of `stride` channels.
struct Window {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t stride = 1;   ///< channels of the tensor
  std::int64_t channel = 0;  ///< where the window's channels begin
};

namespace detail {

template <class T>
struct MoveWindow {
  T* to;
  const T* from;
  Window out;
  Window in;
  std::int64_t up;    ///< row h of `out` is row h - up of `in`
  std::int64_t left;  ///< column likewise
  bool adds;

  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t w = row % out.width - left;
    const std::int64_t image = row / out.width / out.height;
    const std::int64_t h = row / out.width % out.height - up;
    const bool inside = h >= 0 && h < in.height && w >= 0 && w < in.width;
    const std::int64_t source = ((image * in.height + h) * in.width + w) * in.stride;
    T* at = to + row * out.stride + out.channel + c;
    const T v = inside ? from[source + in.channel + c] : static_cast<T>(accum_t<T>{0});
    *at = adds ? static_cast<T>(static_cast<accum_t<T>>(*at) + static_cast<accum_t<T>>(v)) : v;
  }
};

}  // namespace detail

/// Copies (or adds) `channels` channels of every image of `from` into `to`, with its origin at row
/// `up` and column `left`. What lies outside of `to` is left out, what `from` does not reach is 0.
/// Asynchronous on `exec`.
template <ExecutionSpace E, class T>
void move_window(const E& exec, const char* label, std::int64_t images, std::int64_t channels,
                 T* to, const Window& out, const T* from, const Window& in, std::int64_t up,
                 std::int64_t left, bool adds) {
  for_each_2d(exec, label, images * out.height * out.width, channels,
              detail::MoveWindow<T>{to, from, out, in, up, left, adds});
}

}  // namespace krama::kernels
