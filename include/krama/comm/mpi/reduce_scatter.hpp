// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string_view>

#include <krama/comm/mpi/control.hpp>
#include <krama/comm/mpi/detail/flow.hpp>
#include <krama/comm/mpi/detail/staging.hpp>
#include <krama/comm/mpi/detail/state.hpp>
#include <krama/comm/partition.hpp>
#include <krama/comm/wire_encoding.hpp>
#include <krama/definitions.hpp>

namespace krama::comm::detail {

void check_partition(const State& s, const char* call, std::int64_t size,
                     const Partition& partition, std::string_view what);

inline std::uint64_t hash_of(const Partition& partition) {
  return hash_bytes(partition.cuts().data(), partition.cuts().size_bytes());
}

/// What both ends of a message must have in common to cut and route it alike.
std::uint64_t hash_of(const MpiOptions& o, std::uint64_t h = hash_text("route"));

/// Compares what the ranks want where that is due, and numbers the call. \return its tag
template <class A, MemorySpace M>
int begin_reduce(State& s, TensorRef<A, 1, M> buffer, const Partition& partition,
                 std::string_view what, const WireEncoding& wire = {}) {
  check_partition(s, "reduce_scatter", buffer.size(), partition, what);
  const int tag = begin_call(s, {Call::reduce_scatter, dtype_of<A>, buffer.size(),
                                 hash_of(s.options, hash_of(partition)), what, wire.format});
  check_encoding(wire, dtype_of<A>, buffer.size(), what);  // after unlike wishes were compared
  return tag;
}

/// Every rank's contribution to a piece goes to its owner, who finishes the sum. In place.
template <ExecutionSpace E, class A, MemorySpace M>
void reduce_scatter(State& s, const E& exec, TensorRef<A, 1, M> buffer, const Partition& partition,
                    std::string_view what) {
  const int tag = begin_reduce(s, buffer, partition, what);
  on_host(s, exec, buffer, what, s.size > 1, s.size > 1, [&](A* data) {
    s.guarded("reduce_scatter", what, [&] {
      Flow<A>(s, data, partition, tag, true, false).run(s.waiting("reduce_scatter", what));
    });
  });
}

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE void check_partition(const State& s, const char* call, std::int64_t size,
                                  const Partition& partition, std::string_view what) {
  KRAMA_EXPECTS(partition.parts() == s.size && partition.size() == size,
                "{} \"{}\": a partition of {} elements in {} parts does not fit {} elements on {} "
                "ranks",
                call, what, partition.size(), partition.parts(), size, s.size);
}

KRAMA_INLINE std::uint64_t hash_of(const MpiOptions& o, std::uint64_t h) {
  const std::int64_t numbers[] = {static_cast<std::int64_t>(o.form.kind()), o.rails, o.chunk_bytes,
                                  o.chunks_in_flight, o.max_count};
  h = hash_bytes(numbers, sizeof(numbers), h);
  for (const std::int64_t group : o.form.group_of()) h = hash_bytes(&group, sizeof(group), h);
  return h;
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
