// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama::optim {

/// Factor that brings a gradient of Euclidean norm `norm` down to `max_norm`; 1 where it is small
/// enough. The update multiplies by it (UpdateScalars::grad_scale), so clipping takes no pass over
/// the gradients and no gathering: ranks add up the squared norms of what they own. A norm that is
/// not finite gives 0 (the step must be skipped; see StepOutcome::finite).
double clip_factor(double norm, double max_norm);

}  // namespace krama::optim

#if KRAMA_DEFINITIONS

namespace krama::optim {

KRAMA_INLINE double clip_factor(double norm, double max_norm) {
  KRAMA_EXPECTS(max_norm > 0.0, "clip_factor: the largest norm must be above 0, found {}",
                max_norm);
  if (!std::isfinite(norm)) return 0.0;
  return norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace krama::optim

#endif  // KRAMA_DEFINITIONS
