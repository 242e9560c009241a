// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include <krama/core/concepts.hpp>

/// The one way from Krama to Kokkos' asynchronous work and to vendor libraries. Everything that
/// reads or writes tensors on an execution-space instance passes through one of four functions (and
/// `order_after` in order.hpp), so that labels, counts and (in tests) delays have a single place.
namespace krama::kokkos_ext {

/// What has gone through the seam in this process; tests read it, nothing depends on it.
struct SeamCounts {
  std::int64_t launches = 0;
  std::int64_t copies = 0;
  std::int64_t fences = 0;
  std::int64_t order_points = 0;
  std::int64_t library_calls = 0;
};

inline SeamCounts& seam_counts() {
  static SeamCounts counts;
  return counts;
}

/// For an execution space that stands in for a device in tests (testing/guarded/device.hpp), and for
/// nothing else: such a space specialises this, so that it decides when work is done. It sets
/// `active` and provides
///   static void submit(const E&, Work)                     does `work()`, now or by the next wait
///   static decltype(auto) call(const E&, Call&&)           returns `call()`, with memory accessible
///   static void order(const E& later, const E& earlier)    see `order_after` in order.hpp
/// Teams of such a space are the host's threads (see `has_host_teams`).
template <class E>
struct StandIn {
  static constexpr bool active = false;
};

/// parallel_for of `functor` over [0, n) on `exec`. Asynchronous on `exec`.
template <ExecutionSpace E, class Functor>
void launch(const E& exec, const char* label, std::int64_t n, const Functor& functor) {
  if (n <= 0) return;
  ++seam_counts().launches;
  const Kokkos::RangePolicy<E, Kokkos::IndexType<std::int64_t>> policy(exec, 0, n);
  if constexpr (StandIn<E>::active) {
    StandIn<E>::submit(exec, [name = std::string(label), policy, functor] {
      Kokkos::parallel_for(name, policy, functor);
    });
  } else {
    Kokkos::parallel_for(label, policy, functor);
  }
}

/// parallel_for with a policy made by the caller (teams, multi-dimensional ranges).
template <class Policy, class Functor>
void launch_policy(const char* label, const Policy& policy, const Functor& functor) {
  using E = typename Policy::execution_space;
  ++seam_counts().launches;
  if constexpr (StandIn<E>::active) {
    StandIn<E>::submit(policy.space(), [name = std::string(label), policy, functor] {
      Kokkos::parallel_for(name, policy, functor);
    });
  } else {
    Kokkos::parallel_for(label, policy, functor);
  }
}

/// parallel_reduce over [0, n) into a host scalar. Waits for `exec`.
template <ExecutionSpace E, class Functor, class Result>
void reduce(const E& exec, const char* label, std::int64_t n, const Functor& functor,
            Result&& result) {
  ++seam_counts().launches;
  Kokkos::parallel_reduce(
      label, Kokkos::RangePolicy<E, Kokkos::IndexType<std::int64_t>>(exec, 0, n), functor, result);
}

/// Copies views. Asynchronous on `exec`; the caller fences before the host reads the result.
template <ExecutionSpace E, class Dst, class Src>
void copy(const E& exec, const Dst& dst, const Src& src) {
  ++seam_counts().copies;
  if constexpr (StandIn<E>::active) {
    StandIn<E>::submit(exec, [exec, dst, src] { Kokkos::deep_copy(exec, dst, src); });
  } else {
    Kokkos::deep_copy(exec, dst, src);
  }
}

/// Waits until all work on `exec` is done.
template <ExecutionSpace E>
void fence(const E& exec, const char* why) {
  ++seam_counts().fences;
  exec.fence(why);
}

/// Calls into a vendor library that works on `exec`. Asynchronous on `exec` where the library is.
template <ExecutionSpace E, class Call>
decltype(auto) library_call([[maybe_unused]] const E& exec, const char* label, Call&& call) {
  ++seam_counts().library_calls;
  const bool profiled = Kokkos::Tools::profileLibraryLoaded();
  if (profiled) Kokkos::Profiling::pushRegion(label);
  struct Pop {
    bool active;
    ~Pop() {
      if (active) Kokkos::Profiling::popRegion();
    }
  } pop{profiled};
  if constexpr (StandIn<E>::active) {
    return StandIn<E>::call(exec, std::forward<Call>(call));
  } else {
    return std::forward<Call>(call)();
  }
}

/// Kernels on `E` run on the host's own cores: loops there are blocked for caches and vector units.
template <ExecutionSpace E>
inline constexpr bool is_host_space =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename E::memory_space>::accessible &&
    Kokkos::SpaceAccessibility<E, Kokkos::HostSpace>::accessible;

/// Teams of `E` are the host's threads: as many members as there are threads at most, not hundreds.
template <ExecutionSpace E>
inline constexpr bool has_host_teams = is_host_space<E> || StandIn<E>::active;

}  // namespace krama::kokkos_ext
