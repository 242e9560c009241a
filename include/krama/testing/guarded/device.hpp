// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <functional>
#include <utility>

#include <krama/kokkos_ext/seam.hpp>
#include <krama/testing/guarded/kokkos_glue.hpp>

/// A device for machines without one. Code that runs on `GuardedDevice` runs on the host's threads,
/// but under the rules of a GPU: the host must not touch the device's memory (a fault names the
/// allocation), and work is done no earlier than somebody waits for it (see `DelayedWork`).
///
/// Not seen: a kernel that reads host memory; a kernel that leaves its allocation for a neighbour's;
/// the host's touch from another thread while a kernel runs.
namespace krama::testing {

using Kokkos::GuardedDevice;
using Kokkos::GuardedSpace;

/// While it lives, what goes through the seam to a `GuardedDevice` is done only when somebody waits:
/// at a fence of the instance or of all, at an order point when the later instance is waited for, a
/// reduction to the host, a library call, or when device memory is freed. So a missing fence or order
/// point shows as wrong data. Does all work when it ends.
class DelayedWork {
 public:
  DelayedWork() : before_(guarded::Queue::delayed().exchange(true)) {}
  ~DelayedWork() {
    guarded::Queue::run_all();
    guarded::Queue::delayed() = before_;
  }
  DelayedWork(const DelayedWork&) = delete;
  DelayedWork& operator=(const DelayedWork&) = delete;

 private:
  bool before_;
};

}  // namespace krama::testing

template <>
struct krama::kokkos_ext::StandIn<Kokkos::GuardedDevice> {
  static constexpr bool active = true;

  static void submit(const Kokkos::GuardedDevice& exec, std::function<void()> work) {
    exec.queue().submit(std::move(work));
  }
  static void order(const Kokkos::GuardedDevice& later, const Kokkos::GuardedDevice& earlier) {
    later.queue().order_after(earlier.queue());
  }
  /// A library reads what the call refers to, so the call cannot wait; what was before it goes
  /// first.
  template <class Call>
  static decltype(auto) call(const Kokkos::GuardedDevice& exec, Call&& call) {
    exec.queue().run();
    const testing::guarded::Open memory;
    return std::forward<Call>(call)();
  }
};
