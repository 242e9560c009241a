// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <krama/comm/nccl/detail/state.hpp>
#include <krama/comm/pending.hpp>
#include <krama/kokkos_ext/seam.hpp>

namespace krama::comm::detail {

/// An operation that the library has been given: it runs on the stream of an instance, behind the
/// work that was there, and is complete when the event behind it has come.
template <class Library, class Control>
class StartedOnDevice final : public PendingOperation {
 public:
  using State = DeviceState<Library, Control>;

  /// `enqueue` makes the library's calls, as one group, and returns the first result that is not good,
  /// or a good one. A group is always ended: an open one would swallow the calls of others.
  template <class Enqueue>
  StartedOnDevice(std::shared_ptr<State> state, const typename Library::Exec& exec,
                  std::string_view operation, std::string_view what, Enqueue&& enqueue)
      : s_(std::move(state)), operation_(operation), what_(what) {
    const kokkos_ext::CurrentDevice here(exec);
    kokkos_ext::library_call(exec, "krama::comm::device", [&] {
      s_->check(Library::begin_group(), operation_, what_);
      const typename Library::Result called = enqueue(*s_);
      const typename Library::Result ended = Library::end_group();
      s_->check(called, operation_, what_);
      s_->check(ended, operation_, what_);
      s_->settle(operation_, what_);
    });
    event_.record(exec);
  }
  ~StartedOnDevice() override {
    try {
      if (s_->broken.empty() && std::uncaught_exceptions() == 0) wait();
    } catch (const std::exception&) {
      // A destructor has nobody to tell; the communicator says so when it is used next.
    }
  }

  void poll() override {
    if (!complete_) complete_ = event_.ready();
  }
  void wait() override {
    if (complete_) return;
    s_->expect_whole(operation_, what_);
    s_->wait_for(event_, operation_, what_);
    complete_ = true;
  }

 private:
  std::shared_ptr<State> s_;
  std::string operation_;
  std::string what_;
  typename Library::Event event_;
  bool complete_ = false;
};

}  // namespace krama::comm::detail
