// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include <krama/nn/node.hpp>

namespace krama::nn {

namespace detail {

/// Calls f(integral_constant<I>) for I = 0 … N-1, in order.
template <int N, class F>
void for_each_index(F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (f(std::integral_constant<int, static_cast<int>(I)>{}), ...);
  }(std::make_index_sequence<static_cast<std::size_t>(N)>{});
}

}  // namespace detail

/// y = f_n(… f_2(f_1(x))). A flat pack of nodes: chains inside chains are allowed, depth of a network
/// is not part of the type (that is what blocks are for).
///
/// Memory: value i (between node i and node i+1) is kept in the stash where a neighbour's backward
/// reads it; otherwise it lives in scratch, or shares the memory of the next value where the next
/// node may work in place. Gradients between nodes use two scratch buffers in turn.
template <class... Ns>
class Chain {
 public:
  static_assert(sizeof...(Ns) >= 1, "chain(): give at least one layer");
  static constexpr bool is_container = true;
  static constexpr int nodes = static_cast<int>(sizeof...(Ns));
  static constexpr int leaves = (node::leaves<Ns>() + ... + 0);

  template <int I>
  using node_type = std::tuple_element_t<static_cast<std::size_t>(I), std::tuple<Ns...>>;

  static constexpr bool needs_input = node::needs_input<node_type<0>>();
  static constexpr bool needs_output = node::needs_output<node_type<nodes - 1>>();

  explicit Chain(Ns... ns) : nodes_(std::move(ns)...) {}

  [[nodiscard]] Shape out(const Shape& in) const {
    Shape s = in;
    std::apply([&](const auto&... n) { ((s = node::out(n, s)), ...); }, nodes_);
    return s;
  }
  [[nodiscard]] std::int64_t flops(const Shape& in) const {
    Shape s = in;
    std::int64_t n = 0;
    const auto pass = [&](const auto& layer) {
      n += node::flops(layer, s);
      s = node::out(layer, s);
    };
    std::apply([&](const auto&... layers) { (pass(layers), ...); }, nodes_);
    return n;
  }

  template <class Visit>
  void params(ParamSpec& spec, Visit& visit) const {
    detail::for_each_index<nodes>([&](auto i) {
      const auto& n = std::get<i()>(nodes_);
      // A named node brings its own name; others are called by their place.
      constexpr bool named = requires { n.name(); };
      spec.within(named ? "" : std::to_string(i()), [&] { node::params(n, spec, visit); });
    });
  }

  template <Device D, class T>
  [[nodiscard]] NodeSizes sizes(const Shape& in) const {
    const Plan p = plan<D, T>(in);
    return {p.stash, p.scratch};
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x,
               const AnyRef<mem_of<D>>& y) const {
    const Plan p = plan<D, T>(x.shape);
    detail::for_each_index<nodes>([&](auto i) {
      node::forward<D, T>(std::get<i()>(nodes_),
                          ctx.part(first_leaf<i()>(), p.node_stash[i()], p.node_scratch),
                          value(p, ctx, i(), x, y), value(p, ctx, i() + 1, x, y));
    });
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x, const AnyRef<mem_of<D>>& y,
                const AnyRef<mem_of<D>>& dy, const AnyRef<mem_of<D>>& dx) const {
    const Plan p = plan<D, T>(x.shape);
    detail::for_each_index<nodes>([&](auto reversed) {
      constexpr int i = nodes - 1 - reversed();
      AnyRef<mem_of<D>> d_out = dy;
      AnyRef<mem_of<D>> d_in = dx;
      if constexpr (i + 1 < nodes) d_out = gradient<D, T>(p, ctx, i + 1);
      if constexpr (i > 0) d_in = gradient<D, T>(p, ctx, i);
      node::backward<D, T>(std::get<i>(nodes_),
                           ctx.part(first_leaf<i>(), p.node_stash[i], p.node_scratch),
                           value(p, ctx, i, x, y), value(p, ctx, i + 1, x, y), d_out, d_in);
    });
  }

 private:
  enum class Place : std::uint8_t { input, output, stash, scratch };

  struct Plan {
    std::array<Shape, static_cast<std::size_t>(nodes + 1)> shape;
    std::array<Place, static_cast<std::size_t>(nodes + 1)> place{};
    std::array<std::int64_t, static_cast<std::size_t>(nodes + 1)> offset{};
    std::array<std::int64_t, static_cast<std::size_t>(nodes)> node_stash{};
    std::int64_t stash = 0;
    std::int64_t gradient_bytes = 0;  ///< of one of the two buffers
    std::int64_t node_scratch = 0;    ///< where the scratch of the running node begins
    std::int64_t scratch = 0;
  };

  template <int I>
  static constexpr int first_leaf() {
    int n = 0;
    detail::for_each_index<I>([&](auto j) { n += node::leaves<node_type<j()>>(); });
    return n;
  }
  /// Backward of a neighbour reads value I.
  template <int I>
  static constexpr bool kept() {
    return node::needs_output<node_type<I - 1>>() || node::needs_input<node_type<I>>();
  }

  template <Device D, class T>
  [[nodiscard]] Plan plan(const Shape& in) const {
    Plan p;
    p.shape[0] = in;
    p.place[0] = Place::input;
    p.place[nodes] = Place::output;
    std::int64_t deepest = 0;
    detail::for_each_index<nodes>([&](auto i) {
      const auto& n = std::get<i()>(nodes_);
      p.shape[i() + 1] = node::out(n, p.shape[i()]);
      const NodeSizes s = node::sizes<D, T>(n, p.shape[i()]);
      p.node_stash[i()] = p.stash;
      p.stash += s.stash;
      deepest = std::max(deepest, s.scratch);
    });
    std::int64_t values = 0;
    // From the end, so that a value may take the place of its in-place successor.
    detail::for_each_index<nodes - 1>([&](auto reversed) {
      constexpr int i = nodes - 1 - reversed();
      const std::int64_t bytes = RegionSpec::round_up(
          checked_product(p.shape[i].size(), static_cast<std::int64_t>(sizeof(T))));
      p.gradient_bytes = std::max(p.gradient_bytes, bytes);
      if constexpr (kept<i>()) {
        p.place[i] = Place::stash;
        p.offset[i] = p.stash;
        p.stash += bytes;
      } else if (node::in_place<node_type<i>>()) {
        p.place[i] = p.place[i + 1];
        p.offset[i] = p.offset[i + 1];
      } else {
        p.place[i] = Place::scratch;
        p.offset[i] = values;
        values += bytes;
      }
    });
    p.node_scratch = std::max(values, 2 * p.gradient_bytes);
    p.scratch = p.node_scratch + deepest;
    return p;
  }

  template <Device D, class T>
  AnyRef<mem_of<D>> value(const Plan& p, const Context<D, T>& ctx, int i,
                          const AnyRef<mem_of<D>>& x, const AnyRef<mem_of<D>>& y) const {
    const auto k = static_cast<std::size_t>(i);
    switch (p.place[k]) {
      case Place::input:
        return x;
      case Place::output: {
        AnyRef<mem_of<D>> v = y;
        v.shape = p.shape[k];
        return v;
      }
      case Place::stash:
        return {ctx.stash_base() + p.offset[k], dtype_of<T>, p.shape[k]};
      case Place::scratch:
        return {ctx.scratch_base() + p.offset[k], dtype_of<T>, p.shape[k]};
    }
    return x;
  }
  template <Device D, class T>
  AnyRef<mem_of<D>> gradient(const Plan& p, const Context<D, T>& ctx, int i) const {
    return {ctx.scratch_base() + (i % 2) * p.gradient_bytes, dtype_of<T>,
            p.shape[static_cast<std::size_t>(i)]};
  }

  std::tuple<Ns...> nodes_;
};

/// chain(Linear{784, 256}, Relu{}, Linear{256, 10})
template <class... Ns>
Chain<Ns...> chain(Ns... ns) {
  return Chain<Ns...>(std::move(ns)...);
}

/// A node with a name of its own in parameter names: named("qkv", Linear{…}).
template <class N>
class Named {
 public:
  static constexpr bool is_container = true;
  static constexpr int leaves = node::leaves<N>();
  static constexpr bool needs_input = node::needs_input<N>();
  static constexpr bool needs_output = node::needs_output<N>();

  Named(std::string name, N inner) : name_(std::move(name)), inner_(std::move(inner)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Shape out(const Shape& in) const { return node::out(inner_, in); }
  [[nodiscard]] std::int64_t flops(const Shape& in) const { return node::flops(inner_, in); }
  template <class Visit>
  void params(ParamSpec& spec, Visit& visit) const {
    spec.within(name_, [&] { node::params(inner_, spec, visit); });
  }
  template <Device D, class T>
  [[nodiscard]] NodeSizes sizes(const Shape& in) const {
    return node::sizes<D, T>(inner_, in);
  }
  template <Device D, class T>
  void forward(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x,
               const AnyRef<mem_of<D>>& y) const {
    node::forward<D, T>(inner_, ctx, x, y);
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x, const AnyRef<mem_of<D>>& y,
                const AnyRef<mem_of<D>>& dy, const AnyRef<mem_of<D>>& dx) const {
    node::backward<D, T>(inner_, ctx, x, y, dy, dx);
  }

 private:
  std::string name_;
  N inner_;
};

template <class N>
Named<N> named(std::string name, N inner) {
  return {std::move(name), std::move(inner)};
}

}  // namespace krama::nn
