// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <exception>
#include <string>

#include <krama/core/concepts.hpp>
#include <krama/core/extents.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

namespace krama {

namespace detail {
/// Bytes, whatever the tensor's type: Kokkos' allocation is compiled once for each space.
template <MemorySpace M>
using Memory = Kokkos::View<std::byte*, Kokkos::LayoutRight, M>;

template <MemorySpace M, ExecutionSpace E>
Memory<M> allocate(const E& exec, const std::string& label, std::int64_t bytes) {
  try {
    return Memory<M>(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label),
                     static_cast<std::size_t>(bytes));
  } catch (const std::exception& e) {
    // The type that Kokkos throws here has changed between its versions; the meaning has not.
    throw OutOfMemory(label, bytes, M::name(), e.what());
  }
}
}  // namespace detail

/// Owns R-dimensional row-major packed memory in space `M`. Copies share the memory as Kokkos Views
/// do. Memory is not initialised: fill it.
template <class T, int R, MemorySpace M = Kokkos::HostSpace>
class Tensor {
 public:
  using value_type = T;
  using memory_space = M;
  static constexpr int rank = R;

  Tensor() = default;

  /// Allocates on the default instance of the space. Throws OutOfMemory with label and bytes.
  Tensor(const std::string& label, const Extents<R>& extents)
      : Tensor(typename M::execution_space{}, label, extents) {}

  /// Allocates in order with the work on `exec`.
  template <ExecutionSpace E>
  Tensor(const E& exec, const std::string& label, const Extents<R>& extents) : extents_(extents) {
    memory_ = detail::allocate<M>(
        exec, label, checked_product(product(extents), static_cast<std::int64_t>(sizeof(T))));
  }

  [[nodiscard]] const Extents<R>& extents() const { return extents_; }
  [[nodiscard]] std::int64_t extent(int i) const { return extents_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t size() const { return ref().size(); }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  [[nodiscard]] std::string label() const { return memory_.label(); }

  [[nodiscard]] TensorRef<T, R, M> ref() const { return {data(), extents_}; }
  [[nodiscard]] TensorRef<const T, R, M> cref() const { return {data(), extents_}; }
  operator TensorRef<T, R, M>() const { return ref(); }         // NOLINT: a tensor is its reference
  operator TensorRef<const T, R, M>() const { return cref(); }  // NOLINT

  /// All elements as one row of Kokkos' own kind, unmanaged: the tensor stays the owner.
  [[nodiscard]] auto view() const { return ref().view(); }

 private:
  detail::Memory<M> memory_;
  Extents<R> extents_{};
};

}  // namespace krama
