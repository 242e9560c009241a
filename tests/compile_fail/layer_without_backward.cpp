// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A layer that lacks something says so in words, not in a page of templates.
#include <krama/nn/node.hpp>

using namespace krama;

struct Identity {
  static constexpr std::string_view type_name = "identity";
  static constexpr nn::Saves saves = nn::Saves::none;
  template <Device D, class T>
  void forward(const nn::Context<D, T>& /*ctx*/, Ref<const T, 1, D> /*x*/,
               Ref<T, 1, D> /*y*/) const {}
#ifdef KRAMA_COMPILES
  template <Device D, class T, class S>
  void backward(const nn::Context<D, T>& /*ctx*/, const S& /*saved*/, Ref<const T, 1, D> /*dy*/,
                Ref<T, 1, D> /*dx*/) const {}
#endif
};

using Value = AnyRef<mem_of<DefaultDevice>>;
void f(const nn::Context<DefaultDevice, float>& ctx, const Value& x, const Value& y) {
  nn::node::forward<DefaultDevice, float>(Identity{}, ctx, x, y);
}
