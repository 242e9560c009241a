// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <krama/core/concepts.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/kernels/vector_math.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// An optimizer is a copyable aggregate of hyper-parameters, one file. It defines
///
///   static constexpr std::string_view type_name            for labels and checkpoints
///   static constexpr std::size_t states                    values it keeps for a parameter, 0 to 2
///   static constexpr std::array<std::string_view, states> state_names     for checkpoints
///   template <Device D, class A>
///   void update(exec, UpdateRange<A, mem_of<D>>, UpdateScalars) const
///
/// States start at zero. `update` changes values and states of the range and nothing else; it may
/// be cut anywhere at chunk boundaries without a change of bits. Chunks marked `chunk_frozen` stay
/// as they are; only chunks marked `chunk_decays` take part in weight decay.
///
/// Bits: a parameter is updated by whichever rank owns it, and executables of one job are compiled
/// differently. So that every one of them gives the same bits, element formulas are built from fma,
/// multiplication, division and square root alone, with no addition that a compiler could fuse with
/// a product; what is the same for all elements (bias corrections) is computed on the host in
/// double by +, -, * and /. The executable needs hardware fma for speed, not for its results.
namespace krama::optim {

inline constexpr std::size_t max_states = 2;

/// The part of the flat parameters that one call updates; begins at a chunk boundary.
template <class A, MemorySpace M>
struct UpdateRange {
  TensorRef<A, 1, M> values;
  TensorRef<const A, 1, M> grads;  ///< weighted sums; `UpdateScalars::grad_scale` makes them means
  std::array<TensorRef<A, 1, M>, max_states> states;
  TensorRef<const std::uint8_t, 1, M> attributes;  ///< one byte a chunk, see ChunkAttribute
};

/// What is the same for all elements of a step.
struct UpdateScalars {
  double lr = 0.0;          ///< of this step (see schedule.hpp)
  double grad_scale = 1.0;  ///< 1 / (weight of the global batch), times the factor of clipping
  std::int64_t step = 1;    ///< number of this update, from 1, the same on every rank
};

/// What is expected of an optimizer.
template <class O>
concept Optimizer = std::copyable<O> && requires(const O& o) {
  { O::type_name } -> std::convertible_to<std::string_view>;
  { O::states } -> std::convertible_to<std::size_t>;
  { O::state_names.size() } -> std::convertible_to<std::size_t>;
} && (O::states <= max_states) && (O::state_names.size() == O::states);

/// base^n for n >= 0 by repeated squaring: only multiplications, so every host gets the same bits
/// (std::pow is not required to).
double power(double base, std::int64_t n);

namespace detail {

/// Applies `element(i, decays)` to the elements of one chunk.
template <class Element>
struct UpdateChunk {
  Element element;
  const std::uint8_t* attributes;
  std::int64_t n;
  KOKKOS_FUNCTION void operator()(std::int64_t chunk) const {
    const auto attribute = attributes[chunk];
    if ((attribute & chunk_frozen) != 0) return;
    const bool decays = (attribute & chunk_decays) != 0;
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = begin + chunk_size < n ? begin + chunk_size : n;
    const Element e = element;
    const auto now = e.of(decays);
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = begin; i < end; ++i) e(now, i);
  }
};

/// The same, one thread an element.
template <class Element>
struct UpdateElement {
  Element element;
  const std::uint8_t* attributes;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto attribute = attributes[i / chunk_size];
    if ((attribute & chunk_frozen) != 0) return;
    element(element.of((attribute & chunk_decays) != 0), i);
  }
};

}  // namespace detail

/// For writing an optimizer: applies `element` to every element of the range that is not frozen.
/// `element.of(decays)` gives the constants of a chunk, `element(constants, i)` updates element i;
/// both are KOKKOS_FUNCTIONs. Asynchronous on `exec`.
template <ExecutionSpace E, class A, MemorySpace M, class Element>
void update_elements(const E& exec, const char* label, const UpdateRange<A, M>& range,
                     std::size_t states, const Element& element) {
  const std::int64_t n = range.values.size();
  const std::int64_t chunks = (n + chunk_size - 1) / chunk_size;
  KRAMA_EXPECTS(range.grads.size() == n, "{}: {} gradients for {} values", label,
                range.grads.size(), n);
  KRAMA_EXPECTS(range.attributes.size() >= chunks, "{}: {} attributes for {} chunks", label,
                range.attributes.size(), chunks);
  for (std::size_t s = 0; s < states; ++s) {
    KRAMA_EXPECTS(range.states[s].size() == n, "{}: state {} has {} elements, the values {}", label,
                  s, range.states[s].size(), n);
  }
  if constexpr (kokkos_ext::is_host_space<E>) {
    kokkos_ext::launch(exec, label, chunks,
                       detail::UpdateChunk<Element>{element, range.attributes.data(), n});
  } else {
    kokkos_ext::launch(exec, label, n,
                       detail::UpdateElement<Element>{element, range.attributes.data()});
  }
}

}  // namespace krama::optim

#if KRAMA_DEFINITIONS

namespace krama::optim {

KRAMA_INLINE double power(double base, std::int64_t n) {
  double result = 1.0;
  double square = base;
  for (std::int64_t k = n; k > 0; k >>= 1) {
    if ((k & 1) != 0) result *= square;
    square *= square;
  }
  return result;
}

}  // namespace krama::optim

#endif  // KRAMA_DEFINITIONS
