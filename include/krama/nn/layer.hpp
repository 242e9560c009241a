// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include <krama/core/concepts.hpp>
#include <krama/memory/param_spec.hpp>
#include <krama/nn/context.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// A layer is a copyable aggregate: plain configuration, one file. It defines
///
///   static constexpr std::string_view type_name     labels, errors, default names
///   static constexpr Saves saves                    what backward may read
///   static constexpr int rank                       at which rank it reads and writes (rank_in and
///                                                   rank_out where they differ)
///   using input_type = std::int32_t;                where x is not of the compute type
///   static constexpr bool in_place = true;          y may overwrite x
///   Shape out(const Shape& in) const                shape inference; throws on a misfit
///   void params(ParamSpec&) const                   parameters, in the order of their ids
///   template <class T> void stash(StashSpec&, const Shape& in) const     tensors left for backward
///   template <class T> void scratch(ScratchSpec&, const Shape& in) const memory during one call
///                                                   (template <Device D, class T> where the need
///                                                   depends on the device)
///   std::int64_t flops(const Shape& in) const       operations of forward, for describe(): a product and
///                                                   its addition are two; without it, one for every
///                                                   element of y
///   bool meets_ranks() const                        true: it speaks to the other ranks through
///                                                   ctx.group(), and so is called for empty batches
///   template <Device D, class T> void forward(const Context<D, T>&, x, y) const
///   template <Device D, class T> void backward(const Context<D, T>&, saved, dy, dx) const
///
/// `rank`, `in_place`, `input_type`, `out` (same shape), `params`, `stash`, `scratch`, `flops` and
/// `meets_ranks` may be left out. Without `meets_ranks` a layer is never called for an empty batch.
/// Rules: y = f(x); dx is overwritten and may be null (not wanted); gradients of parameters are
/// added to and may be null (frozen); everything is asynchronous on the context's instance.
namespace krama::nn {

/// What a layer's backward reads besides dy, its parameters and its stash.
enum class Saves : std::uint8_t { none = 0, input = 1, output = 2, both = 3 };

constexpr bool saves_input(Saves s) { return (static_cast<int>(s) & 1) != 0; }
constexpr bool saves_output(Saves s) { return (static_cast<int>(s) & 2) != 0; }

/// What backward is given: a member only for what the layer declared, so that reading anything else
/// does not compile.
template <Saves S, class X, class Y>
struct Saved;
template <class X, class Y>
struct Saved<Saves::none, X, Y> {};
template <class X, class Y>
struct Saved<Saves::input, X, Y> {
  X x;
};
template <class X, class Y>
struct Saved<Saves::output, X, Y> {
  Y y;
};
template <class X, class Y>
struct Saved<Saves::both, X, Y> {
  X x;
  Y y;
};

namespace detail {

template <class L>
constexpr int rank_in() {
  if constexpr (requires { L::rank_in; }) {
    return L::rank_in;
  } else if constexpr (requires { L::rank; }) {
    return L::rank;
  } else {
    return 1;
  }
}
template <class L>
constexpr int rank_out() {
  if constexpr (requires { L::rank_out; }) {
    return L::rank_out;
  } else if constexpr (requires { L::rank; }) {
    return L::rank;
  } else {
    return 1;
  }
}
template <class L>
constexpr bool in_place() {
  if constexpr (requires { L::in_place; }) {
    return L::in_place;
  } else {
    return false;
  }
}
template <class L, class T>
struct input_type {
  using type = T;
};
template <class L, class T>
  requires requires { typename L::input_type; }
struct input_type<L, T> {
  using type = typename L::input_type;
};

}  // namespace detail

/// Element type of a layer's input when the model computes in `T`.
template <class L, class T>
using input_of = typename detail::input_type<L, T>::type;

/// What is expected of a layer whatever device and type it runs with.
template <class L>
concept LayerSpec = std::copyable<L> && requires {
  { L::type_name } -> std::convertible_to<std::string_view>;
  { L::saves } -> std::convertible_to<Saves>;
};

/// The saved tensors that `backward` of layer L receives.
template <class L, Device D, class T>
using SavedOf = Saved<L::saves, TensorRef<const input_of<L, T>, detail::rank_in<L>(), mem_of<D>>,
                      TensorRef<const T, detail::rank_out<L>(), mem_of<D>>>;

/// A layer that runs on device `D` in type `T`.
template <class L, class D, class T>
concept Layer = LayerSpec<L> && Device<D> && Scalar<T> &&
                requires(const L& layer, const Context<D, T>& ctx,
                         TensorRef<const input_of<L, T>, detail::rank_in<L>(), mem_of<D>> x,
                         TensorRef<input_of<L, T>, detail::rank_in<L>(), mem_of<D>> dx,
                         TensorRef<T, detail::rank_out<L>(), mem_of<D>> y,
                         TensorRef<const T, detail::rank_out<L>(), mem_of<D>> dy,
                         const SavedOf<L, D, T>& saved) {
                  layer.forward(ctx, x, y);
                  layer.backward(ctx, saved, dy, dx);
                };

/// Shape of a layer's output; the same as the input's where the layer does not say.
template <LayerSpec L>
Shape out_shape(const L& layer, const Shape& in) {
  if constexpr (requires { layer.out(in); }) {
    return layer.out(in);
  } else {
    return in;
  }
}

/// Floating-point operations of one forward; one for every element of the output where the layer does
/// not say (elementwise layers, norms).
template <LayerSpec L>
std::int64_t flops_of(const L& layer, const Shape& in) {
  if constexpr (requires { layer.flops(in); }) {
    return layer.flops(in);
  } else {
    return out_shape(layer, in).size();
  }
}

/// Declares a layer's parameters under the current prefix.
template <LayerSpec L>
void declare_params(const L& layer, ParamSpec& spec) {
  if constexpr (requires { layer.params(spec); }) layer.params(spec);
}

template <LayerSpec L>
bool meets_ranks(const L& layer) {
  if constexpr (requires { layer.meets_ranks(); }) {
    return layer.meets_ranks();
  } else {
    return false;
  }
}

template <class T, LayerSpec L>
StashSpec stash_of(const L& layer, const Shape& in) {
  StashSpec spec;
  if constexpr (requires { layer.template stash<T>(spec, in); }) layer.template stash<T>(spec, in);
  return spec;
}
template <Device D, class T, LayerSpec L>
ScratchSpec scratch_of(const L& layer, const Shape& in) {
  ScratchSpec spec;
  if constexpr (requires { layer.template scratch<D, T>(spec, in); }) {
    layer.template scratch<D, T>(spec, in);
  } else if constexpr (requires { layer.template scratch<T>(spec, in); }) {
    layer.template scratch<T>(spec, in);
  }
  return spec;
}

}  // namespace krama::nn
