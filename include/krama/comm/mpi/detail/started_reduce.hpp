// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <krama/comm/mpi/detail/flow.hpp>
#include <krama/comm/mpi/detail/staging.hpp>
#include <krama/comm/mpi/reduce_scatter.hpp>
#include <krama/comm/pending.hpp>

namespace krama::comm::detail {

/// A reduce_scatter under way.
template <ExecutionSpace E, class A, MemorySpace M>
class StartedReduce final : public PendingOperation {
 public:
  StartedReduce(std::shared_ptr<State> state, const E& exec, TensorRef<A, 1, M> buffer,
                const Partition& partition, std::string_view what, int tag,
                const WireEncoding& wire)
      : s_(std::move(state)),
        exec_(exec),
        what_(what),
        call_(s_->calls - 1),
        transfer_(*s_, exec_, buffer, what_, true, true),
        flow_(*s_, transfer_.data(), partition, tag, true, false, overlapped_window(*s_), wire) {
    s_->under_way.insert(call_);
    s_->guarded("reduce_scatter", what_, [&] { flow_.start(); });
  }
  ~StartedReduce() override {
    try {
      if (s_->broken.empty() && std::uncaught_exceptions() == 0) wait();
    } catch (const std::exception&) {
      // A destructor has nobody to tell; the communicator says so when it is used next.
    }
    s_->under_way.erase(call_);
  }

  void poll() override {
    if (!flow_.done()) s_->guarded("reduce_scatter", what_, [&] { flow_.poll(waiting()); });
  }
  void wait() override {
    if (complete_) return;
    s_->guarded("reduce_scatter", what_, [&] { flow_.finish(waiting()); });
    transfer_.finish();
    complete_ = true;
    s_->under_way.erase(call_);
  }

 private:
  [[nodiscard]] Waiting waiting() const { return s_->waiting("reduce_scatter", what_); }
  /// Nobody looks after it for the time of a block's backward, so more is put on its way at once.
  static int overlapped_window(const State& s) {
    return 8 * std::max(1, s.options.chunks_in_flight);
  }

  std::shared_ptr<State> s_;
  E exec_;
  std::string what_;
  std::uint64_t call_;
  Transfer<E, A, M> transfer_;
  Flow<A> flow_;
  bool complete_ = false;
};

template <ExecutionSpace E, class A, MemorySpace M>
Pending start_reduce_scatter(const std::shared_ptr<State>& s, const E& exec,
                             TensorRef<A, 1, M> buffer, const Partition& partition,
                             std::string_view what, const WireEncoding& wire) {
  if (s->size == 1) {
    check_encoding(wire, dtype_of<A>, buffer.size(), what);
    reduce_scatter(*s, exec, buffer, partition, what);
    return nullptr;
  }
  const int tag = begin_reduce(*s, buffer, partition, what, wire);
  return std::make_unique<StartedReduce<E, A, M>>(s, exec, buffer, partition, what, tag, wire);
}

}  // namespace krama::comm::detail
