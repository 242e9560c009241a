// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Ranks are known to the compiler: a matrix is not indexed with one number.
#include <krama/tensor/tensor_ref.hpp>

float f(const krama::TensorRef<float, 2, Kokkos::HostSpace>& x) {
#ifdef KRAMA_COMPILES
  return x(1, 2);
#else
  return x(1);
#endif
}
