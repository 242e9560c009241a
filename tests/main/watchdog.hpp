// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace krama::test {

/// Ends the process when one test takes too long: a rank that waits for a message that never comes
/// would otherwise hold the whole run. Its thread calls no MPI; mpiexec ends the other ranks.
class Watchdog {
 public:
  explicit Watchdog(int rank) : rank_(rank), thread_([this] { watch(); }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  /// `grace`: seconds more than a test is given.
  void start(const std::string& what, int grace = 0) { set(what, true, grace); }
  void stop() { set("", false, 0); }

 private:
  void set(const std::string& what, bool running, int grace) {
    {
      const std::lock_guard lock(mutex_);
      what_ = what;
      running_ = running;
      grace_ = grace;
      ++turn_;
    }
    changed_.notify_one();
  }

  static int seconds_allowed() {
    const char* text = std::getenv("KRAMA_TEST_WATCHDOG");
    const int seconds = text == nullptr ? 0 : std::atoi(text);
    return seconds > 0 ? seconds : 60;
  }

  void watch() {
    const int allowed = seconds_allowed();
    std::unique_lock lock(mutex_);
    while (!ended_) {
      const int seconds = allowed + grace_;
      const auto turn = turn_;
      const bool moved = changed_.wait_for(lock, std::chrono::seconds(seconds),
                                           [&] { return ended_ || turn_ != turn; });
      if (moved || !running_) continue;
      std::fprintf(stderr, "[krama test][rank %d] \"%s\" has run for %d s: giving up\n", rank_,
                   what_.c_str(), seconds);
      std::fflush(stderr);
      _exit(124);
    }
  }

  int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  bool running_ = false;
  int grace_ = 0;
  bool ended_ = false;
  unsigned turn_ = 0;
  std::thread thread_;  // last: it uses the others
};

}  // namespace krama::test
