// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <krama/comm/communicator.hpp>
#include <krama/core/error.hpp>

namespace krama::train {

/// Runs `work` on rank 0 only; if it throws, every rank throws the same error. For files, which one
/// rank reads and writes: a full disk must not leave the others waiting. Collective over comm.
template <Communicator C, class Work>
void on_rank_zero(C& comm, const std::string& what, Work&& work) {
  std::string failure;
  if (comm.rank() == 0) {
    try {
      std::forward<Work>(work)();
    } catch (const std::exception& e) {
      failure = std::string(e.what());
      if (failure.empty()) failure = "unknown error";
    }
  }
  const auto all = comm.gather_text(failure, what);
  if (!all[0].empty()) throw Error(all[0]);
}

/// Does `f` on every rank; where it throws on one, all throw. Collective over comm.
template <class Comm, class F>
void together_or_not(Comm& comm, const char* what, const F& f) {
  std::string mine;
  std::exception_ptr error;
  try {
    f();
  } catch (const std::exception& e) {
    mine = e.what();
    if (mine.empty()) mine = "unknown error";
    error = std::current_exception();
  }
  const auto all = comm.gather_text(mine, what);
  if (error) std::rethrow_exception(error);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) throw Error(fmt::format("rank {}: {}", r, all[r]));
  }
}

}  // namespace krama::train
