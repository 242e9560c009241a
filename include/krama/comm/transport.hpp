// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <krama/core/concepts.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// How bytes get from a tensor to the transport. A matter of each rank: what travels is the same.
enum class Transport : std::uint8_t {
  automatic,       ///< direct where the host can read the memory, staged elsewhere
  staged,          ///< always through a buffer of the communicator's own on the host
  direct,          ///< the transport reads and writes the tensor's memory; staged where it cannot
  require_direct,  ///< the same, and refused where it cannot
};

constexpr std::string_view name_of(Transport t) {
  switch (t) {
    case Transport::automatic:
      return "automatic";
    case Transport::staged:
      return "staged";
    case Transport::direct:
      return "direct";
    case Transport::require_direct:
      return "require=direct";
  }
  return "?";
}

/// The transport of this name. `require=WORD` is WORD without a way out; staged has no need of one.
/// \throws Error for any other text; `source` says where it came from.
Transport parse_transport(std::string_view text, std::string_view source);

/// KRAMA_TRANSPORT, automatic when it is unset or empty.
Transport default_transport();

/// What a wish comes to for tensors in one memory space.
struct TransportChoice {
  bool staged = false;
  bool refused = false;
  std::string_view reason;  ///< why it is not direct although that was not excluded; else empty
};

template <MemorySpace M>
constexpr TransportChoice choose_transport(Transport wanted) {
  if (wanted == Transport::staged) return {true, false, ""};
  if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace, M>::accessible) {
    return {false, false, ""};
  } else {
    return {true, wanted == Transport::require_direct, "the MPI library is not known to read it"};
  }
}

/// How the description of a transport begins that the first call would refuse.
inline constexpr std::string_view transport_refusal = "refused: ";

/// "direct", "staged", "staged, not direct (Cuda: …)", "refused: …".
template <MemorySpace M>
std::string describe_transport(Transport wanted) {
  const TransportChoice choice = choose_transport<M>(wanted);
  if (choice.refused) {
    return fmt::format("{}{} in {}: {}", transport_refusal, name_of(wanted), M::name(),
                       choice.reason);
  }
  if (wanted == Transport::direct && choice.staged) {
    return fmt::format("staged, not direct ({}: {})", M::name(), choice.reason);
  }
  return choice.staged ? "staged" : "direct";
}

/// How tensors in memory space M, by default the default device's, travel with this communicator: for
/// printing at the start.
template <MemorySpace M = Kokkos::DefaultExecutionSpace::memory_space, class C>
std::string describe_transport(const C& comm) {
  if constexpr (requires { comm.transport_wanted(); }) {
    return "mpi, " + describe_transport<M>(comm.transport_wanted());
  } else {
    return comm.transport();
  }
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE Transport parse_transport(std::string_view text, std::string_view source) {
  for (const auto t :
       {Transport::automatic, Transport::staged, Transport::direct, Transport::require_direct}) {
    if (text == name_of(t)) return t;
  }
  if (text == "require=staged") return Transport::staged;
  throw Error(fmt::format(
      "{} is \"{}\"; wanted automatic, staged, direct, require=direct or require=staged", source,
      text));
}

KRAMA_INLINE Transport default_transport() {
  const char* value = std::getenv("KRAMA_TRANSPORT");
  if (value == nullptr || *value == '\0') return Transport::automatic;
  return parse_transport(value, "KRAMA_TRANSPORT");
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
