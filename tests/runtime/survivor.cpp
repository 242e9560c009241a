// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// R04: a communicator that outlives MPI frees nothing and harms nobody.
#include <krama/runtime/run.hpp>

#include <optional>

namespace {
std::optional<krama::World>& kept() {
  static std::optional<krama::World> world;
  return world;
}
}  // namespace

int main(int argc, char** argv) {
  const int code = krama::run(argc, argv, [](krama::World& world) {
    kept() = world.duplicate("kept");
    kept()->barrier("used");
    return 0;
  });
  return code;  // the static goes after MPI has ended
}
