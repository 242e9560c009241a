// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <atomic>
#include <cstdlib>
#include <string_view>

#include <krama/core/error.hpp>

namespace krama::kernels {

namespace detail {

inline bool tf32_named(std::string_view word) {
  KRAMA_EXPECTS(word.empty() || word == "0" || word == "1",
                "KRAMA_TF32: found \"{}\", wanted 0 (f32 is multiplied as f32) or 1", word);
  return word == "1";
}

inline std::atomic<bool>& tf32_switch() {
  static std::atomic<bool> allowed{[] {
    const char* word = std::getenv("KRAMA_TF32");
    return tf32_named(word == nullptr ? std::string_view() : std::string_view(word));
  }()};
  return allowed;
}

}  // namespace detail

/// Whether vendor libraries may round the factors of f32 products on devices to TF32 (10 bits after
/// the point), which is several times faster there. Off unless KRAMA_TF32=1 or `allow_tf32(true)`.
/// Sums stay in f32; other types and hosts are not concerned.
inline bool tf32_allowed() { return detail::tf32_switch(); }
/// For the products that are started from now on.
inline void allow_tf32(bool allowed) { detail::tf32_switch() = allowed; }

}  // namespace krama::kernels
