// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/for_each_2d.hpp>
#include <krama/kernels/pool.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// The mean of each channel over the whole image: (images, height, width, channels) to (images,
/// channels), whatever the size of the image. dx = dy / (height width). Saves nothing.
struct GlobalAvgPool2d {
  static constexpr std::string_view type_name = "global_avg_pool2d";
  static constexpr Saves saves = Saves::none;
  static constexpr int rank_in = 4;
  static constexpr int rank_out = 2;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() == 4 && in[1] > 0 && in[2] > 0,
                  "global_avg_pool2d: wanted an input (images, height, width, channels), found {}",
                  to_string(in));
    return {in[0], in[3]};
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const { return in.size(); }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 4, D> x, Ref<T, 2, D> y) const {
    // One window as large as the image.
    kernels::avg_pool(ctx.exec(), window(x), true, x,
                      y.template reshaped<4>({x.extent(0), 1, 1, x.extent(3)}));
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<GlobalAvgPool2d, D, T>& /*saved*/,
                Ref<const T, 2, D> dy, Ref<T, 4, D> dx) const {
    using A = accum_t<T>;
    if (dx.null()) return;
    const std::int64_t pixels = dx.extent(1) * dx.extent(2);
    const std::int64_t channels = dx.extent(3);
    const A factor = A{1} / static_cast<A>(pixels);
    const T* up = dy.data();
    T* to = dx.data();
    kernels::for_each_2d(
        ctx.exec(), "krama::nn::global_avg_pool2d::backward", dx.extent(0) * pixels, channels,
        KOKKOS_LAMBDA(std::int64_t p, std::int64_t c) {
          to[p * channels + c] =
              static_cast<T>(static_cast<A>(up[p / pixels * channels + c]) * factor);
        });
  }

 private:
  template <class R>
  static kernels::WindowSizes window(const R& x) {
    return {{x.extent(0), x.extent(1), x.extent(2), 1, 1}, {x.extent(1), x.extent(2)}, 1, 0, 1};
  }
};

}  // namespace krama::nn
