// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A program that hands MPI a pointer to device memory, as nobody should who does not know that MPI can
// read it. It must end with the name of the tensor. With an argument it goes the right way, through a
// copy on the host, and ends well.

#include <mpi.h>

#include <krama/tensor/copy.hpp>
#include <krama/testing/guarded/device.hpp>

#include <cstdio>
#include <vector>

namespace {

/// Sends `values` from this rank to itself.
std::vector<float> sent_to_myself(const float* values, int n) {
  std::vector<float> received(static_cast<std::size_t>(n));
  MPI_Sendrecv(values, n, MPI_FLOAT, 0, 7, received.data(), n, MPI_FLOAT, 0, 7, MPI_COMM_SELF,
               MPI_STATUS_IGNORE);
  return received;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 1;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    const krama::testing::GuardedDevice exec;
    const krama::Tensor<float, 1, krama::testing::GuardedSpace> t(exec, "test::gradients", {100});
    krama::fill(exec, t.ref(), 2.5F);
    const auto here = krama::download(exec, t.ref());
    const bool right_way = argc > 1;
    const auto received = sent_to_myself(right_way ? here.data() : t.data(), 100);
    code = received[99] == 2.5F ? 0 : 1;
    std::printf("received %g\n", static_cast<double>(received[99]));
  }
  MPI_Finalize();
  return code;
}
