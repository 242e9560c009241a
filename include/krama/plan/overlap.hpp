// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/program.hpp>

namespace krama::plan {

/// The same step with every bucket's sum started as soon as its gradients are complete: right after
/// the last backward of `last_block[k]`, the last of the blocks that add to bucket k. It is awaited
/// where it was, so what follows finds the same bits. A rank without samples starts all sums at the
/// end, in the same order as the others.
Program with_overlap(const Program& program, const std::vector<int>& last_block);

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE Program with_overlap(const Program& program, const std::vector<int>& last_block) {
  int last_micro = -1;
  std::vector<int> order;  // of the buckets
  for (const auto& i : program) {
    if (i.op == Op::backward) last_micro = i.micro;
    if (i.op != Op::reduce) continue;
    KRAMA_EXPECTS(i.index >= 0 && i.index < static_cast<int>(last_block.size()),
                  "with_overlap: bucket {} has no entry among {}", i.index, last_block.size());
    order.push_back(i.index);
  }
  // The same order on every rank, whatever its program: that of the blocks.
  const auto of = [&last_block](int k) { return last_block[static_cast<std::size_t>(k)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return of(a) > of(b); });
  Program out;
  out.reserve(program.size());
  std::size_t next = 0;
  for (const auto& i : program) {
    if (i.op == Op::reduce) continue;
    // Whatever is not started by now starts before the first that is waited for.
    if (i.op == Op::await_reduce) {
      for (; next < order.size(); ++next) out.push_back({Op::reduce, order[next]});
    }
    out.push_back(i);
    if (i.op != Op::backward || i.micro != last_micro) continue;
    while (next < order.size() && of(order[next]) >= i.index) {
      out.push_back({Op::reduce, order[next++]});
    }
  }
  return out;
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
