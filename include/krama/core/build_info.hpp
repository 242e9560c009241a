// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>

namespace krama {

/// The compiler that built this executable: "gcc 14.2.0".
inline std::string compiler_name() {
#if defined(__NVCC__)
  return "nvcc " + std::to_string(__CUDACC_VER_MAJOR__) + "." +
         std::to_string(__CUDACC_VER_MINOR__);
#elif defined(__clang__)
  return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__);
#elif defined(__GNUC__)
  return "gcc " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__);
#else
  return "unknown compiler";
#endif
}

/// The widest vector instructions that this executable was compiled for.
inline std::string instruction_set() {
#if defined(__AVX512F__)
  return "avx512";
#elif defined(__AVX2__) && defined(__FMA__)
  return "avx2+fma";
#elif defined(__AVX2__)
  return "avx2";
#elif defined(__AVX__)
  return "avx";
#elif defined(__SSE2__)
  return "sse2";
#elif defined(__ARM_FEATURE_SVE)
  return "sve";
#elif defined(__ARM_NEON)
  return "neon";
#else
  return "scalar";
#endif
}

/// The processor family that this executable was compiled for.
inline std::string processor_family() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "arm64";
#elif defined(__powerpc64__)
  return "ppc64";
#else
  return "unknown processor";
#endif
}

/// False when this executable was compiled without optimisation: training would crawl.
inline constexpr bool optimized_build =
#if defined(__OPTIMIZE__)
    true;
#else
    false;
#endif

/// A short name of this executable's build, to tell the executables of a mixed job apart.
/// KRAMA_BUILD_NAME, when the build defines it (as a string), comes first.
inline std::string build_name() {
  std::string name;
#ifdef KRAMA_BUILD_NAME
  name = std::string(KRAMA_BUILD_NAME) + " ";
#endif
  name += compiler_name() + " " + instruction_set();
  if (!optimized_build) name += " unoptimised";
  return name;
}

}  // namespace krama
