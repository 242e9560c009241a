// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <string>
#include <type_traits>

#include <krama/core/concepts.hpp>
#include <krama/core/error.hpp>
#include <krama/kokkos_ext/seam.hpp>

namespace krama::kokkos_ext {

namespace detail {

#if defined(KOKKOS_ENABLE_CUDA)
inline void check_cuda(cudaError_t code) {
  if (code == cudaSuccess) return;
  throw Error(std::string("order point between CUDA streams: ") + cudaGetErrorString(code));
}
#endif
#if defined(KOKKOS_ENABLE_HIP)
inline void check_hip(hipError_t code) {
  if (code == hipSuccess) return;
  throw Error(std::string("order point between HIP streams: ") + hipGetErrorString(code));
}
#endif

}  // namespace detail

/// An order point: what is given to `later` from now on begins after what has been given to `earlier`
/// so far. The host waits only where there is nothing like an event: Kokkos has none, so CUDA's and
/// HIP's own are used, and hosts fence `earlier`.
template <ExecutionSpace E>
void order_after(const E& later, const E& earlier) {
  ++seam_counts().order_points;
  if constexpr (StandIn<E>::active) {
    StandIn<E>::order(later, earlier);
  } else
#if defined(KOKKOS_ENABLE_CUDA)
      if constexpr (std::is_same_v<E, Kokkos::Cuda>) {
    cudaEvent_t event = nullptr;
    detail::check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    detail::check_cuda(cudaEventRecord(event, earlier.cuda_stream()));
    detail::check_cuda(cudaStreamWaitEvent(later.cuda_stream(), event, 0));
    detail::check_cuda(cudaEventDestroy(event));  // once it has passed
  } else
#endif
#if defined(KOKKOS_ENABLE_HIP)
      if constexpr (std::is_same_v<E, Kokkos::HIP>) {
    hipEvent_t event = nullptr;
    detail::check_hip(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    detail::check_hip(hipEventRecord(event, earlier.hip_stream()));
    detail::check_hip(hipStreamWaitEvent(later.hip_stream(), event, 0));
    detail::check_hip(hipEventDestroy(event));  // once it has passed
  } else
#endif
  {
    static_cast<void>(later);
    earlier.fence("krama::kokkos_ext::order_after");
  }
}

}  // namespace krama::kokkos_ext
