// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <source_location>
#include <string>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama::comm::detail {

/// Throws unless an MPI call returned MPI_SUCCESS: every return code goes through here.
void check(int code, const char* call, int rank = -1,
           std::source_location where = std::source_location::current());

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE void check(int code, const char* call, int rank, std::source_location where) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  const std::string reason(text, static_cast<std::size_t>(length));
  const std::string place = rank >= 0 ? fmt::format(" on rank {}", rank) : std::string();
  throw Error(fmt::format("{} failed{}: {}", call, place,
                          reason.empty() ? fmt::format("error code {}", code) : reason),
              where);
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
