// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include <krama/comm/mpi/control.hpp>
#include <krama/comm/mpi/detail/staging.hpp>
#include <krama/comm/mpi/detail/state.hpp>
#include <krama/definitions.hpp>

namespace krama::comm::detail {

/// Sends root's bytes down a binomial tree, chunk by chunk: a rank passes a chunk on as soon as it
/// has it.
void broadcast_bytes(State& s, const Waiting& waiting, unsigned char* data, std::int64_t bytes,
                     int root, int tag);

/// Everybody gets root's bytes.
template <ExecutionSpace E, class T, MemorySpace M>
void broadcast(State& s, const E& exec, TensorRef<T, 1, M> buffer, int root,
               std::string_view what) {
  KRAMA_EXPECTS(root >= 0 && root < s.size, "broadcast \"{}\": the root is rank {} of {}", what,
                root, s.size);
  const int tag = begin_call(
      s, {Call::broadcast, dtype_of<T>, buffer.size(), static_cast<std::uint64_t>(root), what});
  const bool any = s.size > 1;
  on_host(s, exec, buffer, what, any && s.rank == root, any && s.rank != root, [&](T* data) {
    s.guarded("broadcast", what, [&] {
      broadcast_bytes(s, s.waiting("broadcast", what), reinterpret_cast<unsigned char*>(data),
                      buffer.size() * static_cast<std::int64_t>(sizeof(T)), root, tag);
    });
  });
}

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE void broadcast_bytes(State& s, const Waiting& waiting, unsigned char* data,
                                  std::int64_t bytes, int root, int tag) {
  const int me = (s.rank - root + s.size) % s.size;  // the root is 0 in the tree
  int parent = -1;
  std::vector<int> children;
  for (int bit = 1; bit < s.size; bit <<= 1) {
    if ((me & bit) != 0) {
      parent = me - bit;
      break;
    }
    if (me + bit < s.size) children.push_back(me + bit);
  }
  std::reverse(children.begin(), children.end());  // the child with the most below it first
  const auto rank_of = [&](int node) { return (node + root) % s.size; };

  const std::int64_t chunk =
      std::clamp<std::int64_t>(s.options.chunk_bytes, 1, s.options.max_count);
  const auto length = [&](std::int64_t c) { return std::min(chunk, bytes - c * chunk); };
  const std::int64_t chunks = (bytes + chunk - 1) / chunk;
  const std::int64_t window = std::max(1, s.options.chunks_in_flight);
  const auto pass_on = [&](std::int64_t c) {
    for (const int child : children) {
      s.flight.send(s.rail(), data + c * chunk, length(c), rank_of(child), tag, -1);
    }
  };
  const auto expect = [&](std::int64_t c) {
    if (c < chunks) {
      s.flight.receive(s.rail(), data + c * chunk, length(c), rank_of(parent), tag, c);
    }
  };
  if (parent < 0) {
    for (std::int64_t c = 0; c < chunks; ++c) pass_on(c);
    s.flight.wait_all(waiting);
    return;
  }
  // Chunks are passed on in order, whatever order their completions are noticed in.
  std::vector<bool> here(static_cast<std::size_t>(chunks), false);
  std::int64_t passed = 0;
  for (std::int64_t c = 0; c < window; ++c) expect(c);
  while (!s.flight.empty()) {
    s.flight.wait_some(waiting, [&](std::int64_t c) {
      if (c < 0) return;
      here[static_cast<std::size_t>(c)] = true;
      expect(c + window);
      while (passed < chunks && here[static_cast<std::size_t>(passed)]) pass_on(passed++);
    });
  }
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
