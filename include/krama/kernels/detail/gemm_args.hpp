// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <krama/config.hpp>
#include <krama/core/concepts.hpp>
#include <krama/core/error.hpp>
#include <krama/kernels/detail/gemm_micro.hpp>

namespace krama::kernels {

/// How a matrix enters a product: as stored, or transposed (BLAS' N and T).
enum class Op : std::uint8_t { none, transpose };

/// Who computes a matrix product. `automatic` is a fixed rule over types, shapes and the execution
/// space (never a timing), so the same call always takes the same way. `portable` on hosts exists in
/// programs compiled with KRAMA_PORTABLE_GEMM=1; in others hosts take `packed` in its place. On devices
/// `portable` keeps the vendor's library out; the other words are for hosts and mean `automatic` there.
enum class GemmDoor : std::uint8_t { automatic, portable, packed, onednn, openblas };

namespace detail {

/// One product C (m,n) = alpha op(A) op(B) + beta C (+ bias along rows), row-major with leading
/// dimensions. `beta == 0` means that C is only written. `bias` (n) may be null.
template <class TA, class TB, class TC>
struct GemmArgs {
  Op ta = Op::none;
  Op tb = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  accum_t<TC> alpha = 1;
  const TA* a = nullptr;
  std::int64_t lda = 0;
  const TB* b = nullptr;
  std::int64_t ldb = 0;
  accum_t<TC> beta = 0;
  TC* c = nullptr;
  std::int64_t ldc = 0;
  const TB* bias = nullptr;
};

/// Elements from one product of a batch to the next.
struct BatchStrides {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

template <class TA, class TB, class TC>
KOKKOS_FUNCTION GemmArgs<TA, TB, TC> product_of_batch(GemmArgs<TA, TB, TC> g,
                                                      const BatchStrides& strides, std::int64_t i) {
  g.a += i * strides.a;
  g.b += i * strides.b;
  g.c += i * strides.c;
  return g;
}

inline GemmDoor gemm_door_named(std::string_view word) {
  if (word == "portable") return GemmDoor::portable;
  if (word == "packed") return GemmDoor::packed;
  if (word == "onednn") return GemmDoor::onednn;
  if (word == "openblas") return GemmDoor::openblas;
  KRAMA_EXPECTS(word.empty() || word == "auto",
                "KRAMA_GEMM: found \"{}\", wanted one of auto, portable, packed, onednn, openblas",
                word);
  return GemmDoor::automatic;
}

inline GemmDoor gemm_door_of_environment() {
  const char* word = std::getenv("KRAMA_GEMM");
  return gemm_door_named(word == nullptr ? std::string_view() : std::string_view(word));
}

/// The door that the process was told to use: KRAMA_GEMM, read at the first product.
inline GemmDoor& chosen_gemm_door() {
  static GemmDoor door = gemm_door_of_environment();
  return door;
}

}  // namespace detail

/// Forces a door while it lives; for tests and benchmarks, on one thread at a time.
class ForcedGemmDoor {
 public:
  explicit ForcedGemmDoor(GemmDoor door) : before_(detail::chosen_gemm_door()) {
    detail::chosen_gemm_door() = door;
  }
  ~ForcedGemmDoor() { detail::chosen_gemm_door() = before_; }
  ForcedGemmDoor(const ForcedGemmDoor&) = delete;
  ForcedGemmDoor& operator=(const ForcedGemmDoor&) = delete;

 private:
  GemmDoor before_;
};

}  // namespace krama::kernels
