// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdlib>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// Starts Kokkos unless somebody else has, and ends it only if it started it.
class KokkosScope {
 public:
  KokkosScope(int& argc, char** argv);
  KokkosScope(const KokkosScope&) = delete;
  KokkosScope& operator=(const KokkosScope&) = delete;
  ~KokkosScope() {
    if (owner_ && Kokkos::is_initialized() && !Kokkos::is_finalized()) Kokkos::finalize();
  }

  /// True when this object started Kokkos and will end it.
  [[nodiscard]] bool owner() const { return owner_; }

 private:
  bool owner_ = false;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE KokkosScope::KokkosScope(int& argc, char** argv) {
  KRAMA_EXPECTS(!Kokkos::is_finalized(),
                "Kokkos was finalized before Krama started; it cannot be started again");
  if (Kokkos::is_initialized()) return;
  // Kokkos would warn once for each rank about threads and cores; the table of ranks says it once.
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);
  Kokkos::initialize(argc, argv);
  owner_ = true;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
