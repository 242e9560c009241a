// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/model_shares.hpp>
#include <krama/plan/proportional_shares.hpp>
#include <krama/plan/shares.hpp>
#include <krama/train/share_log.hpp>

namespace krama::train {

enum class ShareRule : std::uint8_t { model, proportional };

/// How the global batch is shared out.
struct ShareOptions {
  std::vector<double> fixed = {};  ///< proportions, one a rank, that stay; empty: they follow speed
  ShareRule rule = ShareRule::model;
  plan::ShareLimits limits = {};  ///< no minimum given: 1 where the batch has enough for all
  plan::ModelOptions model = {};
  plan::ProportionalOptions proportional = {};
  ShareLog replay = {};           ///< of another run, followed until step `replay_until`
  std::int64_t replay_until = 0;  ///< from this step on the rule decides again; see read_share_log
};

/// What a command line says: "auto" (shares that follow speed), "proportional" (by the other rule),
/// "equal", or proportions, one number a rank: "3:1".
/// \throws Error, with the text, for anything else.
ShareOptions parse_shares(const std::string& text, int ranks);

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE ShareOptions parse_shares(const std::string& text, int ranks) {
  if (text == "auto") return {};
  if (text == "proportional") return {.rule = ShareRule::proportional};
  if (text == "equal") return {.fixed = std::vector<double>(static_cast<std::size_t>(ranks), 1.0)};
  std::vector<double> shares;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const std::string part = text.substr(at, end - at);
    std::size_t used = 0;
    double value = -1;
    try {
      value = std::stod(part, &used);
    } catch (const std::exception&) {
      used = std::string::npos;
    }
    KRAMA_EXPECTS(used == part.size() && value >= 0,
                  "--shares {}: \"{}\" is not a number of zero or more; write for example 3:1, "
                  "equal or auto",
                  text, part);
    shares.push_back(value);
    at = end + 1;
  }
  KRAMA_EXPECTS(static_cast<int>(shares.size()) == ranks,
                "--shares {} gives {} numbers for {} ranks", text, shares.size(), ranks);
  double total = 0;
  for (const double s : shares) total += s;
  KRAMA_EXPECTS(total > 0, "--shares {}: at least one rank must get samples", text);
  return {.fixed = shares};
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
