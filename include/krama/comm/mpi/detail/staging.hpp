// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstring>
#include <type_traits>

#include <krama/comm/mpi/detail/state.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/copy.hpp>

namespace krama::comm::detail {

template <MemorySpace M>
inline constexpr bool host_can_read = Kokkos::SpaceAccessibility<Kokkos::HostSpace, M>::accessible;

/// Whether the tensor's bytes go through a buffer of the communicator's own.
template <MemorySpace M>
bool is_staged(const State& s, std::string_view what) {
  if constexpr (host_can_read<M>) {
    return s.options.transport == Transport::staged;
  } else {
    KRAMA_EXPECTS(s.options.transport != Transport::direct,
                  "\"{}\" lies in {}, which MPI is not known to read: the transport must be "
                  "staged or automatic, not direct",
                  what, M::name());
    return true;
  }
}

/// Waits for the work in `exec`, hands `body` a pointer that the host may use, and, when staged,
/// copies elements [begin, end) there before and back after as asked.
template <ExecutionSpace E, class T, MemorySpace M, class Body>
void on_host(State& s, const E& exec, TensorRef<T, 1, M> buffer, std::string_view what, bool read,
             bool write, Body&& body) {
  if (!is_staged<M>(s, what)) {
    // Kernels may still be writing what the peers are about to read (or reading what they send).
    kokkos_ext::fence(exec, "krama::comm: before the transfer");
    body(buffer.data());
    return;
  }
  const auto bytes = static_cast<std::size_t>(buffer.size()) * sizeof(T);
  auto* host = reinterpret_cast<T*>(s.staging.at_least(bytes));
  const TensorRef<T, 1, Kokkos::HostSpace> staged(host, {buffer.size()});
  if (read) {
    copy(exec, staged, buffer);
    s.traffic.bytes_staged += static_cast<std::int64_t>(bytes);
  }
  kokkos_ext::fence(exec, "krama::comm: before the transfer");
  body(host);
  if (write) {
    copy(exec, buffer, staged);
    s.traffic.bytes_staged += static_cast<std::int64_t>(bytes);
    kokkos_ext::fence(exec, "krama::comm: after the transfer");
  }
}

}  // namespace krama::comm::detail
