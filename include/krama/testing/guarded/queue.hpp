// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <krama/testing/guarded/fault.hpp>

namespace krama::testing::guarded {

/// The work of one instance of the stand-in device, in order. While work is delayed (see
/// `delayed`), what is submitted waits here until somebody waits for it: the latest moment that a
/// real device is allowed. Otherwise it is done at once: the earliest.
class Queue {
 public:
  /// Queues live to the end of the process: instances hold plain addresses of them.
  static Queue& make() {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    all().push_back(std::make_unique<Queue>(static_cast<std::uint32_t>(all().size())));
    return *all().back();
  }
  /// Of the default instance.
  static Queue& main() {
    static Queue& queue = make();
    return queue;
  }
  static void run_all() {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    for (std::size_t q = 0; q < all().size(); ++q) all()[q]->run();
  }
  static std::atomic<bool>& delayed() {
    static std::atomic<bool> flag{false};
    return flag;
  }

  explicit Queue(std::uint32_t number) : number_(number) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  void submit(std::function<void()> work) {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    if (delayed() && !running_) {
      waiting_.push_back(std::move(work));
      return;
    }
    run();
    work();
  }

  /// What is submitted from now on comes after what waits in `earlier` now.
  void order_after(Queue& earlier) {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    submit([&earlier, mark = earlier.done_ + earlier.waiting_.size()] { earlier.run_to(mark); });
  }

  /// Does everything that waits. Called by the work itself, it does nothing.
  void run() { run_to(~std::uint64_t{0}); }

 private:
  /// Until `mark` pieces of work have been done in all.
  void run_to(std::uint64_t mark) {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    if (running_ || waiting_.empty()) return;
    struct Running {
      bool& flag;
      explicit Running(bool& f) : flag(f) { flag = true; }
      ~Running() { flag = false; }
    } const now(running_);
    const Open memory;
    for (; !waiting_.empty() && done_ < mark; ++done_) {
      const auto work = std::move(waiting_.front());
      waiting_.pop_front();
      work();
    }
  }

  /// One for all queues: the device does one thing at a time.
  static std::recursive_mutex& mutex() {
    static auto* m = new std::recursive_mutex;
    return *m;
  }
  static std::vector<std::unique_ptr<Queue>>& all() {
    static auto* queues = new std::vector<std::unique_ptr<Queue>>;
    return *queues;
  }

  std::uint32_t number_;
  bool running_ = false;
  std::deque<std::function<void()>> waiting_;
  std::uint64_t done_ = 0;  ///< pieces of work that waited
};

}  // namespace krama::testing::guarded
