// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <krama/core/error.hpp>

namespace krama::kernels {

/// Who computes a convolution. `automatic` is a fixed rule over types, shapes and the execution space
/// (never a timing), so the same call always takes the same way.
enum class ConvDoor : std::uint8_t { automatic, portable, onednn };

namespace detail {

inline ConvDoor conv_door_named(std::string_view word) {
  if (word == "portable") return ConvDoor::portable;
  if (word == "onednn") return ConvDoor::onednn;
  KRAMA_EXPECTS(word.empty() || word == "auto",
                "KRAMA_CONV: found \"{}\", wanted one of auto, portable, onednn", word);
  return ConvDoor::automatic;
}

/// The door that the process was told to use: KRAMA_CONV, read at the first convolution.
inline ConvDoor& chosen_conv_door() {
  static ConvDoor door = [] {
    const char* word = std::getenv("KRAMA_CONV");
    return conv_door_named(word == nullptr ? std::string_view() : std::string_view(word));
  }();
  return door;
}

}  // namespace detail

/// Forces a door while it lives; for tests and benchmarks, on one thread at a time.
class ForcedConvDoor {
 public:
  explicit ForcedConvDoor(ConvDoor door) : before_(detail::chosen_conv_door()) {
    detail::chosen_conv_door() = door;
  }
  ~ForcedConvDoor() { detail::chosen_conv_door() = before_; }
  ForcedConvDoor(const ForcedConvDoor&) = delete;
  ForcedConvDoor& operator=(const ForcedConvDoor&) = delete;

 private:
  ConvDoor before_;
};

}  // namespace krama::kernels
