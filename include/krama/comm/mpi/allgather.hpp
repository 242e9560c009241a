// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string_view>

#include <krama/comm/mpi/reduce_scatter.hpp>

namespace krama::comm::detail {

/// Every owner sends its piece to everybody, as bytes. In place.
template <ExecutionSpace E, class T, MemorySpace M>
void allgather(State& s, const E& exec, TensorRef<T, 1, M> buffer, const Partition& partition,
               std::string_view what) {
  check_partition(s, "allgather", buffer.size(), partition, what);
  const int tag = begin_call(s, {Call::allgather, dtype_of<T>, buffer.size(),
                                 hash_of(s.options, hash_of(partition)), what});
  on_host(s, exec, buffer, what, s.size > 1, s.size > 1, [&](T* data) {
    s.guarded("allgather", what, [&] {
      Flow<T>(s, data, partition, tag, false, true).run(s.waiting("allgather", what));
    });
  });
}

}  // namespace krama::comm::detail
