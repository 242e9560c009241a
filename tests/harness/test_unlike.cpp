// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A mixed test means nothing unless its two executables really round differently.
#include <krama/comm/mpi/communicator.hpp>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {
/// a * b + c as the compiler likes it: one rounding where it contracts, two where it does not.
float multiply_add(const volatile float* x) {
  const float a = x[0];
  const float b = x[1];
  const float c = x[2];
  return a * b + c;
}
}  // namespace

TEST_CASE("unlike executables: their arithmetic differs in bits", "[harness]") {
  auto comm = krama::MpiComm::world();
  // (1 + e)^2 - 1 with e = 2^-12: the product needs 25 bits, so contraction shows.
  const std::vector<float> x{1.0F + 0x1p-12F, 1.0F + 0x1p-12F, -1.0F};
  const bool contracted = multiply_add(x.data()) != 0x1p-11F;
  CHECK(contracted == (std::string_view(KRAMA_BUILD_NAME) == "native"));

  bool unlike = false;
  const std::string mine = contracted ? "contracted" : "not contracted";
  for (const auto& theirs : comm.gather_text(mine, "arithmetic")) unlike |= theirs != mine;
  CHECK(unlike);
}

TEST_CASE("unlike executables: oneDNN may choose different kernels", "[harness]") {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool limited = isa != nullptr && std::string_view(isa) == "AVX2";
  CHECK(limited == (std::string_view(KRAMA_BUILD_NAME) == "v3"));
}
