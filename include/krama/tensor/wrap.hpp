// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <type_traits>

#include <krama/core/error.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/tensor.hpp>

/// Users' Kokkos Views as Krama tensors.
namespace krama {

namespace detail {
template <class View>
Extents<static_cast<int>(View::rank())> extents_of(const View& view) {
  Extents<static_cast<int>(View::rank())> e{};
  for (std::size_t i = 0; i < View::rank(); ++i) e[i] = static_cast<std::int64_t>(view.extent(i));
  return e;
}
/// T with R asterisks: a View's data type with R run-time extents.
template <class T, int R>
struct Pointers {
  using type = typename Pointers<T, R - 1>::type*;
};
template <class T>
struct Pointers<T, 0> {
  using type = T;
};
}  // namespace detail

/// A reference to the memory of a row-major View, without a copy. The View stays the owner and must
/// outlive all work on the reference.
/// \throws Error when the View has gaps (padding or a sub-view of columns).
template <class View>
  requires Kokkos::is_view_v<View>
auto wrap(const View& view) {
  using T = typename View::value_type;
  using M = typename View::memory_space;
  constexpr int R = static_cast<int>(View::rank());
  static_assert(R >= 1, "wrap: a rank-0 View is not a tensor; use a View of one element");
  static_assert(std::is_same_v<typename View::array_layout, Kokkos::LayoutRight> || R == 1,
                "wrap: the View must be LayoutRight (row-major); use wrap_transposed for a "
                "LayoutLeft matrix, or import_copy");
  KRAMA_EXPECTS(view.span_is_contiguous(),
                "wrap: View \"{}\" {} is not packed; use import_copy(exec, view)", view.label(),
                to_string(detail::extents_of(view)));
  return TensorRef<T, R, M>(view.data(), detail::extents_of(view));
}

/// A LayoutLeft matrix (m, n) as a row-major tensor (n, m), without a copy.
template <class View>
  requires(Kokkos::is_view_v<View> && View::rank() == 2)
auto wrap_transposed(const View& view) {
  using T = typename View::value_type;
  static_assert(std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft>,
                "wrap_transposed: the View must be LayoutLeft (column-major); wrap reads "
                "LayoutRight");
  KRAMA_EXPECTS(view.span_is_contiguous(),
                "wrap_transposed: View \"{}\" {} is not packed; use import_copy(exec, view)",
                view.label(), to_string(detail::extents_of(view)));
  const auto e = detail::extents_of(view);
  return TensorRef<T, 2, typename View::memory_space>(view.data(), Extents<2>{e[1], e[0]});
}

/// A packed row-major copy of any View accessible from `exec`. Asynchronous on `exec`.
template <ExecutionSpace E, class View>
  requires Kokkos::is_view_v<View>
auto import_copy(const E& exec, const View& view) {
  using T = typename View::non_const_value_type;
  using M = typename View::memory_space;
  constexpr int R = static_cast<int>(View::rank());
  static_assert(AccessibleFrom<M, E>, "import_copy: exec cannot read the View's memory space");
  const auto e = detail::extents_of(view);
  Tensor<T, R, M> out(exec, "krama::tensor::import", e);
  Kokkos::LayoutRight layout;
  for (std::size_t i = 0; i < e.size(); ++i) layout.dimension[i] = static_cast<std::size_t>(e[i]);
  using Target = Kokkos::View<typename detail::Pointers<T, R>::type, Kokkos::LayoutRight, M,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  kokkos_ext::copy(exec, Target(out.data(), layout), view);
  return out;
}

}  // namespace krama
