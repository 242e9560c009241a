// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/elementwise.hpp>
#include <krama/nn/layer.hpp>

namespace krama::test {

/// y = w x, column by column; the smallest layer with a parameter. What its backward reads can be
/// chosen, so that tests of containers reach every case: x, or y (from which x is y / w).
template <nn::Saves S = nn::Saves::input>
struct Scale {
  std::int64_t features = 0;
  bool frozen = false;
  std::string tie = {};

  static constexpr std::string_view type_name = "scale";
  static constexpr nn::Saves saves = S;
  static constexpr int rank = 2;
  static constexpr bool in_place = S == nn::Saves::output;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in[-1] == features, "scale: the last extent must be {}, found {}", features,
                  to_string(in));
    return in;
  }
  void params(ParamSpec& spec) const {
    spec("weight", {features}, Init::constant(1.5), {.decay = true, .frozen = frozen, .tie = tie});
  }
  template <Device D, class T>
  void forward(const nn::Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    const T* in = x.data();
    T* out = y.data();
    const T* w = ctx.template param<1>(0).data();
    const std::int64_t columns = x.extent(1);
    kernels::for_each(
        ctx.exec(), "krama::test::scale::forward", x.size(),
        KOKKOS_LAMBDA(std::int64_t i) { out[i] = in[i] * w[i % columns]; });
  }
  template <Device D, class T>
  void backward(const nn::Context<D, T>& ctx, const nn::SavedOf<Scale, D, T>& saved,
                Ref<const T, 2, D> dy, Ref<T, 2, D> dx) const {
    const T* kept = nullptr;
    if constexpr (S == nn::Saves::input) {
      kept = saved.x.data();
    } else {
      kept = saved.y.data();
    }
    const bool divide = S == nn::Saves::output;
    const T* d_out = dy.data();
    T* d_in = dx.data();
    const T* w = ctx.template param<1>(0).data();
    const std::int64_t rows = dy.extent(0);
    const std::int64_t columns = dy.extent(1);
    auto dw = ctx.template grad<1>(0);
    accum_t<T>* d_weight = dw.data();
    kernels::for_each(
        ctx.exec(), "krama::test::scale::backward", columns, KOKKOS_LAMBDA(std::int64_t c) {
          accum_t<T> sum{0};
          for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t i = r * columns + c;
            sum += d_out[i] * (divide ? kept[i] / w[c] : kept[i]);
          }
          if (d_weight != nullptr) d_weight[c] += sum;
        });
    if (dx.null()) return;
    kernels::for_each(
        ctx.exec(), "krama::test::scale::backward", dy.size(),
        KOKKOS_LAMBDA(std::int64_t i) { d_in[i] = d_out[i] * w[i % columns]; });
  }
};

}  // namespace krama::test
