// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/core/join.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// A wait in which nothing has arrived for too long.
struct StallReport {
  std::string_view communicator;
  std::string_view operation;     ///< "allreduce"
  std::string_view what;          ///< the tensor
  double seconds = 0;             ///< since the last message arrived
  std::vector<int> awaited_from;  ///< ranks whose data is missing
  std::vector<int> not_taken_by;  ///< ranks that have not received what was sent to them
};

namespace detail {
/// "rank 1" or "ranks 0, 2"
inline std::string list_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", join(ranks, ", "));
}
}  // namespace detail

std::string to_string(const StallReport& r);

/// How long a wait may see nothing arrive: KRAMA_WATCHDOG_SECONDS, or 300; 0 means for ever.
/// \throws Error when the variable is not a number, 0 or more.
double default_watchdog_seconds();

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE std::string to_string(const StallReport& r) {
  std::string text = fmt::format("stalled: {} \"{}\" on communicator \"{}\" has waited {:.1f} s",
                                 r.operation, r.what, r.communicator, r.seconds);
  if (!r.awaited_from.empty()) {
    text += fmt::format("; nothing more came from {}", detail::list_ranks(r.awaited_from));
  }
  if (!r.not_taken_by.empty()) {
    text += fmt::format("; not taken by {}", detail::list_ranks(r.not_taken_by));
  }
  return text + " (limit: KRAMA_WATCHDOG_SECONDS; 0 means none)";
}

KRAMA_INLINE double default_watchdog_seconds() {
  const char* text = std::getenv("KRAMA_WATCHDOG_SECONDS");
  if (text == nullptr || *text == '\0') return 300.0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  KRAMA_EXPECTS(*end == '\0' && seconds >= 0 && seconds < 1e9,
                "KRAMA_WATCHDOG_SECONDS is \"{}\"; wanted a number of seconds, 0 or more", text);
  return seconds;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
