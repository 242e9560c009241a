// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Handles of libraries go before Kokkos does: prints when, for a test that reads it.
#include <krama/kokkos_ext/per_instance.hpp>
#include <krama/tensor/tensor.hpp>

#include <Kokkos_Core.hpp>
#include <cstdio>

namespace {
using Space = Kokkos::DefaultHostExecutionSpace;
struct Handle {
  explicit Handle(const Space& exec) : memory(exec, "handle", {1000}) {}
  ~Handle() { std::printf("released %s Kokkos\n", Kokkos::is_initialized() ? "before" : "after"); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  krama::Tensor<std::byte, 1> memory;
};
}  // namespace

int main(int argc, char** argv) {
  Kokkos::initialize(argc, argv);
  krama::kokkos_ext::PerInstance<Space, Handle>::of(Space());
  Kokkos::finalize();
  std::printf("the end\n");
  return 0;
}
