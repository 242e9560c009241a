// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <span>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor.hpp>

namespace krama {

/// dst = src, across spaces. Asynchronous on `exec`.
template <ExecutionSpace E, class T, int R, MemorySpace MD, MemorySpace MS>
void copy(const E& exec, TensorRef<T, R, MD> dst, TensorRef<const T, R, MS> src) {
  KRAMA_EXPECTS(dst.extents() == src.extents(), "copy: extents differ: to {}, from {}",
                to_string(dst.extents()), to_string(src.extents()));
  // As bytes: Kokkos' copies are compiled once for each pair of spaces, not for every type as well.
  if (dst.size() > 0) kokkos_ext::copy(exec, dst.bytes().view(), src.bytes().view());
}
template <ExecutionSpace E, class T, int R, MemorySpace MD, MemorySpace MS>
void copy(const E& exec, TensorRef<T, R, MD> dst, TensorRef<T, R, MS> src) {
  copy(exec, dst, TensorRef<const T, R, MS>(src));
}

/// Every element = value. Asynchronous on `exec`.
template <ExecutionSpace E, class T, int R, MemorySpace M>
  requires AccessibleFrom<M, E>
void fill(const E& exec, TensorRef<T, R, M> x, T value) {
  T* p = x.data();
  kokkos_ext::launch(
      exec, "krama::tensor::fill", x.size(), KOKKOS_LAMBDA(std::int64_t i) { p[i] = value; });
}

/// dst = src converted element by element (through float or double). Asynchronous on `exec`.
template <ExecutionSpace E, class T, class U, int R, MemorySpace M>
  requires AccessibleFrom<M, E>
void cast(const E& exec, TensorRef<T, R, M> dst, TensorRef<const U, R, M> src) {
  KRAMA_EXPECTS(dst.extents() == src.extents(), "cast: extents differ: to {}, from {}",
                to_string(dst.extents()), to_string(src.extents()));
  T* d = dst.data();
  const U* s = src.data();
  kokkos_ext::launch(
      exec, "krama::tensor::cast", dst.size(),
      KOKKOS_LAMBDA(std::int64_t i) { d[i] = static_cast<T>(static_cast<accum_t<U>>(s[i])); });
}

/// Host values into a tensor of any space. Fences `exec`, so `values` may go afterwards.
template <ExecutionSpace E, class T, int R, MemorySpace M>
void upload(const E& exec, TensorRef<T, R, M> dst, std::span<const T> values) {
  KRAMA_EXPECTS(dst.size() == static_cast<std::int64_t>(values.size()),
                "upload: {} values for a tensor of {}", values.size(), to_string(dst.extents()));
  copy(exec, dst.flat(),
       TensorRef<const T, 1, Kokkos::HostSpace>(values.data(), Extents<1>{dst.size()}));
  kokkos_ext::fence(exec, "krama::tensor::upload");
}

/// A tensor of any space as host values. Fences `exec`.
template <ExecutionSpace E, class T, int R, MemorySpace M>
std::vector<std::remove_const_t<T>> download(const E& exec, TensorRef<T, R, M> src) {
  using V = std::remove_const_t<T>;
  std::vector<V> values(static_cast<std::size_t>(src.size()));
  copy(exec, TensorRef<V, 1, Kokkos::HostSpace>(values.data(), {src.size()}),
       TensorRef<const V, 1, M>(src.flat()));
  kokkos_ext::fence(exec, "krama::tensor::download");
  return values;
}

}  // namespace krama
