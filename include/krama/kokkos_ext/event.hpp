// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/kokkos_ext/native.hpp>
#include <krama/kokkos_ext/seam.hpp>

namespace krama::kokkos_ext {

/// A mark in the work of an instance that the host can ask about without waiting. Kokkos has none.
/// On spaces without a vendor's event `record` waits for the instance instead. Used once.
template <ExecutionSpace E>
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Behind all work that has been given to `exec`.
  void record(const E& exec) { fence(exec, "krama::kokkos_ext::event"); }
  /// Whether that work is done. Does not wait.
  [[nodiscard]] bool ready() const { return true; }
};

#if defined(KOKKOS_ENABLE_CUDA)
template <>
class Event<Kokkos::Cuda> {
 public:
  Event() {
    cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Kokkos::Cuda& exec) {
    cuda_check(cudaEventRecord(event_, native_stream(exec)), "cudaEventRecord");
  }
  [[nodiscard]] bool ready() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) return false;
    cuda_check(code, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};
#endif

#if defined(KOKKOS_ENABLE_HIP)
template <>
class Event<Kokkos::HIP> {
 public:
  Event() { hip_check(hipEventCreateWithFlags(&event_, hipEventDisableTiming), "hipEventCreate"); }
  ~Event() { static_cast<void>(hipEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Kokkos::HIP& exec) {
    hip_check(hipEventRecord(event_, native_stream(exec)), "hipEventRecord");
  }
  [[nodiscard]] bool ready() const {
    const hipError_t code = hipEventQuery(event_);
    if (code == hipErrorNotReady) return false;
    hip_check(code, "hipEventQuery");
    return true;
  }

 private:
  hipEvent_t event_ = nullptr;
};
#endif

}  // namespace krama::kokkos_ext
