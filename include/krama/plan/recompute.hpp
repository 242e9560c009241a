// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/program.hpp>

namespace krama::plan {

/// The same step with the stash of the chosen blocks dropped after forward and made again just before
/// their backward. Gives the same bits as the plain step.
Program with_recompute(const Program& program, const std::vector<bool>& chosen);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE Program with_recompute(const Program& program, const std::vector<bool>& chosen) {
  Program out;
  out.reserve(program.size());
  for (const auto& i : program) {
    if (i.op == Op::backward) {
      KRAMA_EXPECTS(i.index >= 0 && i.index < static_cast<int>(chosen.size()),
                    "with_recompute: block {} has no entry among {}", i.index, chosen.size());
      if (chosen[static_cast<std::size_t>(i.index)])
        out.push_back({Op::recompute, i.index, i.micro});
    }
    out.push_back(i);
  }
  return out;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
