// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/definitions.hpp>
#include <krama/memory/param_store.hpp>

namespace krama {

namespace detail {

std::string layout_text(const Segment& s, DType type);

/// The first line in which texts of several ranks differ from rank 0's; -1: none.
std::int64_t first_difference(const std::vector<std::vector<std::string>>& lines, int& rank);

std::vector<std::string> split_lines(const std::string& text);

template <Communicator C>
void compare_lines(C& comm, const std::string& mine, const std::string& found_where,
                   const std::string& hint) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& text : comm.gather_text(mine, "fingerprint")) lines.push_back(split_lines(text));
  int rank = 0;
  const std::int64_t at = first_difference(lines, rank);
  if (at < 0) return;
  const auto line = [&](std::size_t r) {
    const auto i = static_cast<std::size_t>(at);
    return i < lines[r].size() ? lines[r][i] : std::string("nothing");
  };
  throw Error(fmt::format("{}: rank 0 has \"{}\", rank {} has \"{}\"; {}", found_where, line(0),
                          rank, line(static_cast<std::size_t>(rank)), hint));
}

}  // namespace detail

/// All ranks train the same model: names, extents, types and attributes of every parameter. The same
/// error on every rank names the first tensor that differs, and a rank. Collective over comm.
template <Communicator C, Scalar T, MemorySpace M>
void check_same_model(C& comm, const ParamStore<T, M>& store) {
  std::string text;
  for (const auto& s : store.segments()) {
    text += detail::layout_text(s, dtype_of<typename ParamStore<T, M>::accum>) + "\n";
  }
  detail::compare_lines(comm, text, "the ranks train different models",
                        "start all of them with the same configuration");
}

/// All replicas hold the same bits. The same error on every rank names the first tensor that
/// differs, and a rank. Collective over comm; fences exec.
template <Communicator C, ExecutionSpace E, Scalar T, MemorySpace M>
void check_same_values(C& comm, const E& exec, const ParamStore<T, M>& store, std::int64_t step) {
  const auto hashes = store.value_fingerprints(exec);
  std::string text;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    text += fmt::format("{} {:016x}\n", store.segments()[i].name, hashes[i]);
  }
  detail::compare_lines(comm, text, fmt::format("replicas have drifted apart at step {}", step),
                        "this must not happen with owner updates; please report it");
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama::detail {

KRAMA_INLINE std::string layout_text(const Segment& s, DType type) {
  return fmt::format("{} {} {}{}", s.name, to_string(s.extents), name_of(type),
                     s.buffer   ? " buffer"
                     : s.frozen ? " frozen"
                     : s.decay  ? ""
                                : " no decay");
}

KRAMA_INLINE std::int64_t first_difference(const std::vector<std::vector<std::string>>& lines,
                                           int& rank) {
  std::int64_t first = -1;
  for (std::size_t r = 1; r < lines.size(); ++r) {
    const std::size_t n = std::max(lines[0].size(), lines[r].size());
    for (std::size_t i = 0; i < n; ++i) {
      const bool same = i < lines[0].size() && i < lines[r].size() && lines[0][i] == lines[r][i];
      if (same) continue;
      if (first < 0 || static_cast<std::int64_t>(i) < first) {
        first = static_cast<std::int64_t>(i);
        rank = static_cast<int>(r);
      }
      break;
    }
  }
  return first;
}

KRAMA_INLINE std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace krama::detail

#endif  // KRAMA_DEFINITIONS
