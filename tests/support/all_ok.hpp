// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace krama::test {

/// True on every rank if `condition` holds on every rank. Between collectives a test may not use
/// REQUIRE: a rank that stops alone leaves the others waiting. `REQUIRE(all_ok(comm, x))` stops all.
/// Collective over comm; waits.
template <class Comm>
bool all_ok(Comm& comm, bool condition) {
  std::array<std::int64_t, 1> ok{condition ? 1 : 0};
  comm.min(std::span<std::int64_t>(ok), "krama::test::all_ok");
  return ok[0] == 1;
}

}  // namespace krama::test
