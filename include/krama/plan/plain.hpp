// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/program.hpp>

namespace krama::plan {

/// The plain step: every micro-batch forward and backward with everything kept, gradients
/// accumulated over micro-batches, then reduce, agree, update and gather. A rank without samples has
/// no micro-batches and still takes part in the rest. Buckets are reduced from the last, whose
/// gradients are complete first, and updated from the first, which forward needs first.
Program plain_step(int blocks, int micro_batches, int buckets);

/// Forward and loss of one micro-batch, nothing kept for backward.
Program evaluation(int blocks);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE Program plain_step(int blocks, int micro_batches, int buckets) {
  KRAMA_EXPECTS(blocks >= 0 && micro_batches >= 0 && buckets >= 0,
                "plain_step: {} blocks, {} micro-batches, {} buckets", blocks, micro_batches,
                buckets);
  Program p{{Op::zero_grads}};
  for (int m = 0; m < micro_batches; ++m) {
    p.push_back({Op::feed, -1, m});
    for (int b = 0; b < blocks; ++b) p.push_back({Op::forward, b, m});
    p.push_back({Op::loss, -1, m});
    for (int b = blocks - 1; b >= 0; --b) p.push_back({Op::backward, b, m});
  }
  for (int k = buckets - 1; k >= 0; --k) {
    p.push_back({Op::reduce, k});
    p.push_back({Op::await_reduce, k});
  }
  p.push_back({Op::agree});
  for (int k = 0; k < buckets; ++k) p.push_back({Op::update, k});
  for (int k = 0; k < buckets; ++k) p.push_back({Op::gather, k});
  return p;
}

KRAMA_INLINE Program evaluation(int blocks) {
  Program p{{Op::feed, -1, 0}};
  for (int b = 0; b < blocks; ++b) p.push_back({Op::forward, b, 0});
  p.push_back({Op::loss, -1, 0});
  return p;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
