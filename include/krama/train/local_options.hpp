// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama::train {

/// What becomes of the replicas when a round of local steps ends.
enum class LocalRule : std::uint8_t {
  blocking,  ///< average, then go on
  cocod,     ///< average while the next local steps run
  diloco,    ///< an outer optimizer steps along the averaged difference
};

constexpr std::string_view name_of(LocalRule rule) {
  switch (rule) {
    case LocalRule::blocking:
      return "blocking";
    case LocalRule::cocod:
      return "cocod";
    case LocalRule::diloco:
      return "diloco";
  }
  return "?";
}

struct LocalSyncOptions {
  LocalRule rule = LocalRule::blocking;
  std::int64_t local_steps = 1;  ///< of a round, on every rank
  double outer_rate = 1.0;       ///< diloco; 0.7 in its paper
  double outer_momentum = 0.0;   ///< diloco, Nesterov's form; 0.9 in its paper; 0: none
};

/// What a command line says. \throws Error for a rule that is none
LocalRule parse_local_rule(std::string_view text);

/// \throws Error for options that make no sense
void check_local_options(const LocalSyncOptions& o);

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE LocalRule parse_local_rule(std::string_view text) {
  for (const auto rule : {LocalRule::blocking, LocalRule::cocod, LocalRule::diloco}) {
    if (text == name_of(rule)) return rule;
  }
  throw Error(fmt::format("local rounds: no rule \"{}\"; wanted blocking, cocod or diloco", text));
}

KRAMA_INLINE void check_local_options(const LocalSyncOptions& o) {
  KRAMA_EXPECTS(o.local_steps >= 1, "local rounds of {} steps; wanted 1 or more", o.local_steps);
  KRAMA_EXPECTS(o.outer_rate > 0 && std::isfinite(o.outer_rate),
                "local rounds: an outer rate of {}", o.outer_rate);
  KRAMA_EXPECTS(o.outer_momentum >= 0 && o.outer_momentum < 1,
                "local rounds: an outer momentum of {}; wanted 0 or more, below 1",
                o.outer_momentum);
  KRAMA_EXPECTS(
      o.rule == LocalRule::diloco || (o.outer_rate == 1.0 && o.outer_momentum == 0.0),
      "local rounds: an outer rate of {} and momentum of {}, which {} has not; take diloco",
      o.outer_rate, o.outer_momentum, name_of(o.rule));
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
