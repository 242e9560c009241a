// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string_view>

#include <krama/comm/mpi/reduce_scatter.hpp>

namespace krama::comm::detail {

/// reduce_scatter and allgather of an even partition in one: each chunk is finished by its owner
/// and goes back to everybody while later chunks are still on their way.
template <ExecutionSpace E, class A, MemorySpace M>
void allreduce(State& s, const E& exec, TensorRef<A, 1, M> buffer, std::string_view what) {
  const int tag =
      begin_call(s, {Call::allreduce, dtype_of<A>, buffer.size(), hash_of(s.options), what});
  const auto partition = Partition::even(buffer.size(), s.size);
  on_host(s, exec, buffer, what, s.size > 1, s.size > 1, [&](A* data) {
    s.guarded("allreduce", what, [&] {
      Flow<A>(s, data, partition, tag, true, true).run(s.waiting("allreduce", what));
    });
  });
}

}  // namespace krama::comm::detail
