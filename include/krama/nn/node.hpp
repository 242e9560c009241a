// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string_view>

#include <krama/nn/layer.hpp>
#include <krama/tensor/any_ref.hpp>

/// A node is what a chain is made of: a layer, or a container of nodes (`Chain`, `Residual`,
/// `Named`). Containers provide the members below; for layers the functions here adapt the layer's
/// typed, static-rank interface. Nothing outside nn/ needs this file.
namespace krama::nn {

/// Bytes that a node needs for inputs of one shape.
struct NodeSizes {
  std::int64_t stash = 0;    ///< from forward to backward
  std::int64_t scratch = 0;  ///< during one call
};

/// Containers mark themselves with `is_container`.
template <class N>
concept Container = requires { requires N::is_container; };

namespace node {

template <class N>
constexpr bool needs_input() {
  if constexpr (Container<N>) {
    return N::needs_input;
  } else {
    return saves_input(N::saves);
  }
}
template <class N>
constexpr bool needs_output() {
  if constexpr (Container<N>) {
    return N::needs_output;
  } else {
    return saves_output(N::saves);
  }
}
template <class N>
constexpr bool in_place() {
  if constexpr (Container<N>) {
    return false;
  } else {
    return detail::in_place<N>();
  }
}
/// Number of layers in the node.
template <class N>
constexpr int leaves() {
  if constexpr (Container<N>) {
    return N::leaves;
  } else {
    return 1;
  }
}

template <class N>
Shape out(const N& n, const Shape& in) {
  if constexpr (Container<N>) {
    return n.out(in);
  } else {
    return out_shape(n, in);
  }
}

/// Operations of one forward; a sum of a residual is one for every element.
template <class N>
std::int64_t flops(const N& n, const Shape& in) {
  if constexpr (Container<N>) {
    return n.flops(in);
  } else {
    return flops_of(n, in);
  }
}

/// Declares parameters and tells `visit(first_param, prefix, meets_ranks)` for every leaf in order.
template <class N, class Visit>
void params(const N& n, ParamSpec& spec, Visit& visit) {
  if constexpr (Container<N>) {
    n.params(spec, visit);
  } else {
    visit(static_cast<int>(spec.count()), spec.prefix(), meets_ranks(n));
    declare_params(n, spec);
  }
}

template <Device D, class T, class N>
NodeSizes sizes(const N& n, const Shape& in) {
  if constexpr (Container<N>) {
    return n.template sizes<D, T>(in);
  } else {
    return {stash_of<T>(n, in).bytes(), scratch_of<D, T>(n, in).bytes()};
  }
}

template <Device D, class T, class N>
void forward(const N& n, const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x,
             const AnyRef<mem_of<D>>& y) {
  if constexpr (Container<N>) {
    n.forward(ctx, x, y);
  } else {
    static_assert(Layer<N, D, T>,
                  "this layer lacks forward(ctx, x, y) or backward(ctx, saved, dy, dx) for the "
                  "ranks and types it declares; see krama/nn/layer.hpp");
    // A rank without samples has nothing to compute; only layers that speak to others must.
    if (x.shape.size() == 0 && !meets_ranks(n)) return;
    using X = input_of<N, T>;
    n.forward(ctx.with_regions(stash_of<T>(n, x.shape), scratch_of<D, T>(n, x.shape)),
              TensorRef<const X, detail::rank_in<N>(), mem_of<D>>(
                  x.template as<X, detail::rank_in<N>()>()),
              y.template as<T, detail::rank_out<N>()>());
  }
}

template <Device D, class T, class N>
void backward(const N& n, const Context<D, T>& ctx, const AnyRef<mem_of<D>>& x,
              const AnyRef<mem_of<D>>& y, const AnyRef<mem_of<D>>& dy,
              const AnyRef<mem_of<D>>& dx) {
  if constexpr (Container<N>) {
    n.backward(ctx, x, y, dy, dx);
  } else {
    if (x.shape.size() == 0 && !meets_ranks(n)) return;
    using X = input_of<N, T>;
    SavedOf<N, D, T> saved{};
    if constexpr (saves_input(N::saves)) {
      saved.x = TensorRef<const X, detail::rank_in<N>(), mem_of<D>>(
          x.template as<X, detail::rank_in<N>()>());
    }
    if constexpr (saves_output(N::saves)) {
      saved.y = TensorRef<const T, detail::rank_out<N>(), mem_of<D>>(
          y.template as<T, detail::rank_out<N>()>());
    }
    // Integer inputs have no gradient: whatever the caller says, dx is null there.
    TensorRef<X, detail::rank_in<N>(), mem_of<D>> d_in(
        nullptr, x.shape.template collapsed<detail::rank_in<N>()>());
    if (!dx.null()) d_in = dx.template as<X, detail::rank_in<N>()>();
    n.backward(ctx.with_regions(stash_of<T>(n, x.shape), scratch_of<D, T>(n, x.shape)), saved,
               TensorRef<const T, detail::rank_out<N>(), mem_of<D>>(
                   dy.template as<T, detail::rank_out<N>()>()),
               d_in);
  }
}

}  // namespace node
}  // namespace krama::nn
