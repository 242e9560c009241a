// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <compare>
#include <cstdint>

#include <krama/core/concepts.hpp>
#include <krama/core/error.hpp>

/// What vendors' libraries are told of an execution-space instance: its stream and its device.
namespace krama::kokkos_ext {

#if defined(KOKKOS_ENABLE_CUDA)
inline void cuda_check(cudaError_t code, const char* call) {
  KRAMA_EXPECTS(code == cudaSuccess, "{} failed: {}", call, cudaGetErrorString(code));
}
inline cudaStream_t native_stream(const Kokkos::Cuda& exec) { return exec.cuda_stream(); }
#endif
#if defined(KOKKOS_ENABLE_HIP)
inline void hip_check(hipError_t code, const char* call) {
  KRAMA_EXPECTS(code == hipSuccess, "{} failed: {}", call, hipGetErrorString(code));
}
inline hipStream_t native_stream(const Kokkos::HIP& exec) { return exec.hip_stream(); }
#endif

/// While it lives, the device of `exec` is the calling thread's current one, which is what libraries
/// make their handles on and start their work on.
template <ExecutionSpace E>
class CurrentDevice {
 public:
  explicit CurrentDevice([[maybe_unused]] const E& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<E, Kokkos::Cuda>) {
      wanted_ = exec.cuda_device();
      cuda_check(cudaGetDevice(&before_), "cudaGetDevice");
      if (before_ != wanted_) cuda_check(cudaSetDevice(wanted_), "cudaSetDevice");
    }
#endif
#if defined(KOKKOS_ENABLE_HIP)
    if constexpr (std::is_same_v<E, Kokkos::HIP>) {
      wanted_ = exec.hip_device();
      hip_check(hipGetDevice(&before_), "hipGetDevice");
      if (before_ != wanted_) hip_check(hipSetDevice(wanted_), "hipSetDevice");
    }
#endif
  }
  ~CurrentDevice() {
    if (before_ == wanted_) return;
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<E, Kokkos::Cuda>) static_cast<void>(cudaSetDevice(before_));
#endif
#if defined(KOKKOS_ENABLE_HIP)
    if constexpr (std::is_same_v<E, Kokkos::HIP>) static_cast<void>(hipSetDevice(before_));
#endif
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  int wanted_ = 0;
};

/// Tells instances apart: two that are equal work in the same order.
struct InstanceKey {
  std::int64_t device = 0;
  const void* stream = nullptr;
  auto operator<=>(const InstanceKey&) const = default;
};

template <ExecutionSpace E>
InstanceKey key_of(const E& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<E, Kokkos::Cuda>) {
    return {exec.cuda_device(), exec.cuda_stream()};
  } else
#endif
#if defined(KOKKOS_ENABLE_HIP)
      if constexpr (std::is_same_v<E, Kokkos::HIP>) {
    return {exec.hip_device(), exec.hip_stream()};
  } else
#endif
  {
    return {static_cast<std::int64_t>(Kokkos::Tools::Experimental::device_id(exec)), nullptr};
  }
}

}  // namespace krama::kokkos_ext
