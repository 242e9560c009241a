// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <utility>

#include <krama/kernels/elementwise.hpp>
#include <krama/nn/chain.hpp>

namespace krama::nn {

/// y = x + f(x); dx = dy + f'(x) dy. f must keep the shape. Where f's backward reads f's own output,
/// that output is kept apart, because y is the sum.
template <class Inner>
class Residual {
 public:
  static constexpr bool is_container = true;
  static constexpr int leaves = node::leaves<Inner>();
  static constexpr bool needs_input = node::needs_input<Inner>();
  static constexpr bool needs_output = false;
  static constexpr bool keeps_inner_output = node::needs_output<Inner>();

  explicit Residual(Inner inner) : inner_(std::move(inner)) {}

  [[nodiscard]] Shape out(const Shape& in) const {
    const Shape o = node::out(inner_, in);
    KRAMA_EXPECTS(o == in, "residual: the branch turns {} into {}; it must keep the shape",
                  to_string(in), to_string(o));
    return o;
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    return node::flops(inner_, in) + in.size();
  }
  template <class Visit>
  void params(ParamSpec& spec, Visit& visit) const {
    node::params(inner_, spec, visit);
  }
  template <Device D, class T>
  [[nodiscard]] NodeSizes sizes(const Shape& in) const {
    NodeSizes s = node::sizes<D, T>(inner_, in);
    if (keeps_inner_output) s.stash += output_bytes<T>(in);
    return s;
  }
  template <Device D, class T>
  void forward(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x,
               const AnyRef<mem_of<D>>& y) const {
    const AnyRef<mem_of<D>> branch = inner_output(ctx, x, y);
    node::forward<D, T>(inner_, inner_context(ctx, x), x, branch);
    kernels::add(ctx.exec(), y.template as<T, 1>(), x.template as<T, 1>(),
                 branch.template as<T, 1>());
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x, const AnyRef<mem_of<D>>& y,
                const AnyRef<mem_of<D>>& dy, const AnyRef<mem_of<D>>& dx) const {
    node::backward<D, T>(inner_, inner_context(ctx, x), x, inner_output(ctx, x, y), dy, dx);
    if (!dx.null()) {
      kernels::add(ctx.exec(), dx.template as<T, 1>(), dx.template as<T, 1>(),
                   dy.template as<T, 1>());
    }
  }

 private:
  template <class T>
  static std::int64_t output_bytes(const Shape& in) {
    return RegionSpec::round_up(checked_product(in.size(), static_cast<std::int64_t>(sizeof(T))));
  }
  template <Device D, class T>
  Context<D, T> inner_context(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x) const {
    return ctx.part(0, keeps_inner_output ? output_bytes<T>(x.shape) : 0, 0);
  }
  template <Device D, class T>
  AnyRef<mem_of<D>> inner_output(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x,
                                 const AnyRef<mem_of<D>>& y) const {
    if constexpr (keeps_inner_output) {
      return {ctx.stash_base(), dtype_of<T>, x.shape};
    } else {
      return y;
    }
  }

  Inner inner_;
};

template <class Inner>
Residual<Inner> residual(Inner inner) {
  return Residual<Inner>(std::move(inner));
}
/// residual(a, b, c) = residual(chain(a, b, c))
template <class... Ns>
  requires(sizeof...(Ns) > 1)
auto residual(Ns... ns) {
  return Residual<Chain<Ns...>>(chain(std::move(ns)...));
}

}  // namespace krama::nn
