// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A column-major View is not a row-major tensor; the message names the two ways out.
#include <krama/tensor/wrap.hpp>

void f() {
#ifdef KRAMA_COMPILES
  using Layout = Kokkos::LayoutRight;
#else
  using Layout = Kokkos::LayoutLeft;
#endif
  const Kokkos::View<float**, Layout, Kokkos::HostSpace> view("view", 2, 3);
  (void)krama::wrap(view);
}
