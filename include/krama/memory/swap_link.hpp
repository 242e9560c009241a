// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <krama/definitions.hpp>
#include <krama/kokkos_ext/order.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/kokkos_ext/streams.hpp>
#include <krama/memory/tier.hpp>
#include <krama/tensor/copy.hpp>

namespace krama {

/// A link slower than the real one, for tests and benchmarks: no transfer takes less than
/// latency + bytes / bandwidth. Zeros: the real link's own speed.
struct LinkModel {
  double latency = 0;        ///< seconds
  double out_bandwidth = 0;  ///< bytes per second
  double in_bandwidth = 0;

  [[nodiscard]] double seconds(std::int64_t bytes, bool out) const;
};

/// Where swapped values go.
struct SwapOptions {
  std::string folder =
      {};  ///< scratch folder for the file; empty: memory outside the process's own
  LinkModel link = {};
  TierCalls calls = {};
};

/// A run of near memory and its place in the far tier.
struct SwapPiece {
  std::byte* near = nullptr;
  std::int64_t far = 0;
  std::int64_t bytes = 0;
  const FileTier* file = nullptr;  ///< hosts: another file than the link's own

  static constexpr std::int64_t zeros = -1;  ///< `far` of what comes in as zeros, from nowhere
};

namespace detail {

/// Does jobs one after the other in a thread of its own; the first error stops all that follow until
/// it has been asked for.
class JobThread {
 public:
  JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  ~JobThread();

  /// \return the ticket to wait for
  std::int64_t submit(std::function<void()> job);
  /// \throws the error of this job or of one before it
  void wait(std::int64_t ticket);
  /// Waits for everything, and forgets an error.
  void settle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::int64_t submitted_ = 0;
  std::int64_t done_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace detail

/// The link between a rank's near memory and its far tier. Transfers are done in the order in which
/// they are asked for, one at a time, beside the computation: on hosts by a thread, to a file; on
/// devices by another instance of the execution space, to the host's memory.
///
/// `out` and `in` begin after the work in `exec` (on hosts they fence it) and return at once. After
/// `wait` that transfer, and so all before it, are done for whatever is given to `exec`: on hosts it
/// waits, on devices it is an order point.
template <Device D>
class SwapLink {
 public:
  using E = exec_of<D>;
  using M = mem_of<D>;
  static constexpr bool host_memory =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, M>::accessible &&
      !kokkos_ext::StandIn<E>::active;

  /// With a far tier of its own of `bytes` bytes; 0: it moves between near memory and others' files.
  /// \throws TierError when the far tier has no room for `bytes`
  SwapLink(const E& exec, std::int64_t bytes, const SwapOptions& options)
      : exec_(exec), model_(options.link) {
    if constexpr (host_memory) {
      if (bytes > 0) file_ = std::make_unique<FileTier>(options.folder, bytes, options.calls);
      thread_ = std::make_unique<detail::JobThread>();
    } else {
      KRAMA_EXPECTS(options.folder.empty(),
                    "devices swap to the host's memory; a scratch folder (\"{}\") is for hosts",
                    options.folder);
      lane_ = kokkos_ext::separate_instance(exec);
      far_ = Tensor<std::byte, 1, Pinned>(Kokkos::DefaultHostExecutionSpace{}, "krama::memory::far",
                                          {bytes});
    }
  }

  SwapLink(const SwapLink&) = delete;
  SwapLink& operator=(const SwapLink&) = delete;
  ~SwapLink() {
    // Whatever still moves must not outlive its memory.
    if (lane_) kokkos_ext::fence(*lane_, "krama::memory::swap link ends");
  }

  std::int64_t out(std::vector<SwapPiece> pieces) { return transfer(std::move(pieces), true); }
  std::int64_t in(std::vector<SwapPiece> pieces) { return transfer(std::move(pieces), false); }
  /// \throws TierError when this transfer, or one before it, could not be done
  void wait(std::int64_t ticket) {
    if constexpr (host_memory) {
      thread_->wait(ticket);
    } else {
      // Later transfers are waited for too: there is no portable event.
      if (ticket <= ordered_) return;
      kokkos_ext::order_after(exec_, *lane_);
      ordered_ = submitted_;
    }
  }
  /// Waits for everything and forgets an error: the next step starts afresh.
  void settle() {
    if constexpr (host_memory) {
      thread_->settle();
    } else {
      kokkos_ext::fence(*lane_, "krama::memory::swapped");
    }
  }
  /// Bytes moved since this link was made.
  [[nodiscard]] std::int64_t moved() const { return moved_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Pinned = Kokkos::SharedHostPinnedSpace;

  std::int64_t transfer(std::vector<SwapPiece> pieces, bool out) {
    std::int64_t bytes = 0;
    for (const auto& p : pieces) bytes += p.far == SwapPiece::zeros ? 0 : p.bytes;
    moved_ += bytes;
    if constexpr (host_memory) {
      kokkos_ext::fence(exec_, "krama::memory::swap");
      return thread_->submit([this, pieces = std::move(pieces), bytes, out] {
        const auto begin = Clock::now();
        for (const auto& p : pieces) {
          if (p.far == SwapPiece::zeros) {
            std::memset(p.near, 0, static_cast<std::size_t>(p.bytes));
            continue;
          }
          const FileTier& file = p.file != nullptr ? *p.file : *file_;
          if (out) {
            file.write(p.far, p.near, p.bytes);
          } else {
            file.read(p.far, p.near, p.bytes);
          }
        }
        const double least = model_.seconds(bytes, out);
        if (least > 0) {
          std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                                    std::chrono::duration<double>(least)));
        }
      });
    } else {
      kokkos_ext::order_after(*lane_, exec_);
      for (const auto& p : pieces) {
        KRAMA_EXPECTS(p.file == nullptr && p.far >= 0, "devices swap to this link's own memory");
        const TensorRef<std::byte, 1, M> near(p.near, {p.bytes});
        const TensorRef<std::byte, 1, Pinned> far(far_.data() + p.far, {p.bytes});
        if (out) {
          copy(*lane_, far, near);
        } else {
          copy(*lane_, near, far);
        }
      }
      return ++submitted_;
    }
  }

  E exec_;
  LinkModel model_;
  std::int64_t moved_ = 0;
  // Hosts.
  std::unique_ptr<FileTier> file_;
  std::unique_ptr<detail::JobThread> thread_;
  // Devices.
  std::optional<E> lane_;
  Tensor<std::byte, 1, Pinned> far_;
  std::int64_t submitted_ = 0;
  std::int64_t ordered_ = 0;  ///< the last transfer that `exec` comes after
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE double LinkModel::seconds(std::int64_t bytes, bool out) const {
  const double bandwidth = out ? out_bandwidth : in_bandwidth;
  return latency + (bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0.0);
}

}  // namespace krama

namespace krama::detail {

KRAMA_INLINE JobThread::JobThread() {
  // Signals are for the program's own threads. Also, a file size limit then is an error that can be
  // reported, and not the end of the process.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

KRAMA_INLINE JobThread::~JobThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

KRAMA_INLINE std::int64_t JobThread::submit(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return ++submitted_;
}

KRAMA_INLINE void JobThread::wait(std::int64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
  if (error_) std::rethrow_exception(error_);
}

KRAMA_INLINE void JobThread::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == submitted_; });
  error_ = nullptr;
}

KRAMA_INLINE void JobThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool skip = error_ != nullptr;
    lock.unlock();
    std::exception_ptr error;
    try {
      if (!skip) job();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) error_ = error;
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace krama::detail

#endif  // KRAMA_DEFINITIONS
