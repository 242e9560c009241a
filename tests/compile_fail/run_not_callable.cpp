// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// krama::run says what a program must look like.
#include <krama/runtime/run.hpp>

int f(int argc, char** argv) {
#ifdef KRAMA_COMPILES
  return krama::run(argc, argv, [](krama::World& world) { return world.rank() < 0 ? 1 : 0; });
#else
  return krama::run(argc, argv, [](const std::string&) { return 0; });
#endif
}
