// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <exception>
#include <string>

#include <krama/core/concepts.hpp>
#include <krama/core/extents.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor_ref.hpp>

namespace krama {

/// Owns (or shares, when wrapped) R-dimensional row-major packed memory in space `M`. Copies share
/// the memory as Kokkos Views do. Memory is not initialised: fill it.
template <class T, int R, MemorySpace M = Kokkos::HostSpace>
class Tensor {
 public:
  using value_type = T;
  using memory_space = M;
  using view_type = Kokkos::View<T*, Kokkos::LayoutRight, M>;
  static constexpr int rank = R;

  Tensor() = default;

  /// Allocates on the default instance of the space. Throws OutOfMemory with label and bytes.
  Tensor(const std::string& label, const Extents<R>& extents)
      : Tensor(typename M::execution_space{}, label, extents) {}

  /// Allocates in order with the work on `exec`.
  template <ExecutionSpace E>
  Tensor(const E& exec, const std::string& label, const Extents<R>& extents) : extents_(extents) {
    const auto n = static_cast<std::size_t>(product(extents));
    try {
      view_ = view_type(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label), n);
    } catch (const std::exception& e) {
      // The type that Kokkos throws here has changed between its versions; the meaning has not.
      throw OutOfMemory(label, product(extents) * static_cast<std::int64_t>(sizeof(T)), M::name(),
                        e.what());
    }
  }

  /// Shares the memory of a packed view. Use `wrap`.
  Tensor(view_type view, const Extents<R>& extents) : view_(std::move(view)), extents_(extents) {}

  [[nodiscard]] const Extents<R>& extents() const { return extents_; }
  [[nodiscard]] std::int64_t extent(int i) const { return extents_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(view_.extent(0)); }
  [[nodiscard]] T* data() const { return view_.data(); }
  [[nodiscard]] std::string label() const { return view_.label(); }

  [[nodiscard]] TensorRef<T, R, M> ref() const { return {view_.data(), extents_}; }
  [[nodiscard]] TensorRef<const T, R, M> cref() const { return {view_.data(), extents_}; }
  operator TensorRef<T, R, M>() const { return ref(); }         // NOLINT: a tensor is its reference
  operator TensorRef<const T, R, M>() const { return cref(); }  // NOLINT

  /// All elements as one row of Kokkos' own kind.
  [[nodiscard]] const view_type& view() const { return view_; }

 private:
  view_type view_;
  Extents<R> extents_{};
};

}  // namespace krama
