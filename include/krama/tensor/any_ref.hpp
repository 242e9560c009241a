// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/dtype.hpp>
#include <krama/core/error.hpp>
#include <krama/core/extents.hpp>
#include <krama/tensor/tensor_ref.hpp>

namespace krama {

/// A value of a model as blocks pass it on: address, element type and shape known at run time.
/// `as<T, R>()` is the one door to a typed reference; a wrong type is an error there. A null address
/// stands for "not kept" or "not wanted".
template <MemorySpace M>
struct AnyRef {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] bool null() const { return data == nullptr; }
  [[nodiscard]] std::int64_t bytes() const { return shape.size() * size_of(dtype); }

  /// Typed reference of rank R; leading extents are collapsed (or ones put before them).
  template <class T, int R>
  [[nodiscard]] TensorRef<T, R, M> as() const {
    KRAMA_EXPECTS(dtype == dtype_of<T>, "a value of type {} {} is read as {}", name_of(dtype),
                  to_string(shape), name_of(dtype_of<T>));
    return {static_cast<T*>(data), shape.template collapsed<R>()};
  }
};

template <class T, int R, MemorySpace M>
AnyRef<M> any_ref(const TensorRef<T, R, M>& x) {
  using V = std::remove_const_t<T>;
  return {const_cast<V*>(x.data()), dtype_of<V>, Shape(std::span<const std::int64_t>(x.extents()))};
}

}  // namespace krama
