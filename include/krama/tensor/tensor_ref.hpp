// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <krama/core/concepts.hpp>
#include <krama/core/extents.hpp>

namespace krama {

/// What kernels and layers see: a pointer and R extents, row-major and packed, in memory space `M`.
/// Does not own; whoever made it keeps the memory alive until the work using it is done. Passed by
/// value, captured by kernels.
template <class T, int R, MemorySpace M>
struct TensorRef {
  static_assert(R >= 1, "tensors have at least one extent; a scalar is one element of rank 1");
  using value_type = std::remove_const_t<T>;
  using memory_space = M;
  static constexpr int rank = R;

  TensorRef() = default;
  TensorRef(T* pointer, const Extents<R>& sizes) : data_(pointer) {
    for (int i = 0; i < R; ++i) extents_[i] = sizes[static_cast<std::size_t>(i)];
  }
  /// A reading reference from a writing one.
  template <class U>
    requires(std::is_same_v<T, const U>)
  KOKKOS_FUNCTION TensorRef(const TensorRef<U, R, M>& other) : data_(other.data()) {  // NOLINT
    for (int i = 0; i < R; ++i) extents_[i] = other.extent(i);
  }

  KOKKOS_FUNCTION T* data() const { return data_; }
  KOKKOS_FUNCTION std::int64_t extent(int i) const { return extents_[i]; }
  KOKKOS_FUNCTION std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < R; ++i) n *= extents_[i];
    return n;
  }
  /// No memory behind it: in backward, a gradient that nobody wants.
  [[nodiscard]] KOKKOS_FUNCTION bool null() const { return data_ == nullptr; }

  [[nodiscard]] Extents<R> extents() const {
    Extents<R> e{};
    for (int i = 0; i < R; ++i) e[static_cast<std::size_t>(i)] = extents_[i];
    return e;
  }

  template <class... I>
    requires(sizeof...(I) == R)
  KOKKOS_FUNCTION T& operator()(I... index) const {
    const std::int64_t i[] = {static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (int d = 0; d < R; ++d) {
      KRAMA_ASSERT(i[d] >= 0 && i[d] < extents_[d]);
      offset = offset * extents_[d] + i[d];
    }
    return data_[offset];
  }

  /// The same elements as one row.
  [[nodiscard]] TensorRef<T, 1, M> flat() const { return {data_, {size()}}; }

  /// The same elements with other extents; the number of elements must agree.
  template <int Q>
  [[nodiscard]] TensorRef<T, Q, M> reshaped(const Extents<Q>& sizes) const {
    KRAMA_EXPECTS(product(sizes) == size(), "reshape: {} elements do not fill {}", size(),
                  to_string(sizes));
    return {data_, sizes};
  }

  /// The same memory as bytes; reading where the elements may only be read.
  [[nodiscard]] auto bytes() const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return TensorRef<Byte, 1, M>(reinterpret_cast<Byte*>(data_),
                                 {size() * static_cast<std::int64_t>(sizeof(T))});
  }

  /// The same memory as an unmanaged Kokkos View.
  [[nodiscard]] auto view() const {
    return Kokkos::View<T*, Kokkos::LayoutRight, typename M::execution_space::device_type,
                        Kokkos::MemoryTraits<Kokkos::Unmanaged>>(data_,
                                                                 static_cast<std::size_t>(size()));
  }

 private:
  T* data_ = nullptr;
  std::int64_t extents_[static_cast<std::size_t>(R)] = {};
};

/// The tensor type that a layer on device `D` sees.
template <class T, int R, Device D>
using Ref = TensorRef<T, R, mem_of<D>>;

}  // namespace krama
