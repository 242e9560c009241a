// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A product of matrices of two types is not silently converted.
#include <krama/kernels/gemm.hpp>

using namespace krama;

void f(const Kokkos::DefaultHostExecutionSpace& exec) {
#ifdef KRAMA_COMPILES
  using B = float;
#else
  using B = double;
#endif
  const TensorRef<const float, 2, Kokkos::HostSpace> a;
  const TensorRef<const B, 2, Kokkos::HostSpace> b;
  const TensorRef<float, 2, Kokkos::HostSpace> c;
  kernels::gemm(exec, kernels::Op::none, kernels::Op::none, 1.0F, a, b, 0.0F, c);
}
