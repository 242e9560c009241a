// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <concepts>

#include <krama/core/dtype.hpp>

namespace krama {

/// An execution space of Kokkos (or one that stands in for it).
template <class E>
concept ExecutionSpace = Kokkos::is_execution_space_v<E>;

/// A memory space of Kokkos.
template <class M>
concept MemorySpace = Kokkos::is_memory_space_v<M>;

/// Where algorithms run and where their data lives: `Kokkos::Device<Exec, Mem>`.
template <class D>
concept Device = Kokkos::is_device_v<D> && ExecutionSpace<typename D::execution_space> &&
                 MemorySpace<typename D::memory_space>;

/// Kernels on `E` may read and write memory of `M`.
template <class M, class E>
concept AccessibleFrom =
    MemorySpace<M> && ExecutionSpace<E> && bool{Kokkos::SpaceAccessibility<E, M>::accessible};

/// A type that activations may have: f64, f32, bf16 or f16.
template <class T>
concept Scalar = std::same_as<T, double> || std::same_as<T, float> || std::same_as<T, bf16> ||
                 std::same_as<T, f16>;

/// The device of the default execution space: what a program uses unless it says otherwise.
using DefaultDevice = Kokkos::DefaultExecutionSpace::device_type;

template <Device D>
using exec_of = typename D::execution_space;
template <Device D>
using mem_of = typename D::memory_space;

}  // namespace krama
