// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/core/error.hpp>
#include <krama/kokkos_ext/device_facts.hpp>
#include <krama/kokkos_ext/native.hpp>

namespace krama::comm::detail {

/// What a DeviceComm's copies share: the library's communicator, and the control communicator over
/// which ranks agree before they call the library.
template <class Library, class Control>
class DeviceState {
 public:
  using Exec = typename Library::Exec;
  using Result = typename Library::Result;
  using Clock = std::chrono::steady_clock;

  Control control;
  Exec exec;  ///< names the device
  std::string name;
  double watchdog_seconds;
  Traffic traffic;
  std::string broken;  ///< why this communicator cannot be used any more

  /// Collective over `over`; waits.
  /// \throws Error, the same on every rank, when the ranks' devices are of several vendors or the
  /// library cannot start
  DeviceState(Control over, const Exec& e, std::string_view called, double seconds)
      : control(std::move(over)), exec(e), name(called), watchdog_seconds(seconds) {
    if (control.size() == 1) return;
    const kokkos_ext::CurrentDevice here(exec);
    check_vendors();
    const typename Library::Id id = agree_on_id();
    const Result result = Library::start(comm_, control.size(), id, control.rank());
    started_ = Library::good(result) || Library::in_progress(result);
    check(result, "start", "communicator");
    settle("start", "communicator");
  }
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  ~DeviceState() {
    if (!started_ || !broken.empty()) return;
    if (std::uncaught_exceptions() > 0) {
      Library::abort(comm_);
      return;
    }
    // Waits for the other ranks' ends in some libraries; not for ever.
    const auto begin = Clock::now();
    Result r = Library::finish(comm_);
    while (Library::in_progress(r) && Clock::now() - begin < std::chrono::seconds(10)) {
      sched_yield();
      r = Library::state(comm_);
    }
    if (Library::good(r)) {
      Library::destroy(comm_);
    } else {
      Library::abort(comm_);
    }
  }

  [[nodiscard]] typename Library::Comm comm() const { return comm_; }
  [[nodiscard]] int rank() const { return control.rank(); }
  [[nodiscard]] int size() const { return control.size(); }

  void expect_whole(std::string_view operation, std::string_view what) const {
    KRAMA_EXPECTS(broken.empty(), "{} \"{}\": communicator \"{}\" broke earlier: {}", operation,
                  what, name, broken);
  }

  /// Compares what the ranks are about to do, on the first call with each name, and counts the call.
  /// \throws Error, the same on every rank, before anything moves
  template <class Details>
  void begin(std::string_view operation, std::string_view what, const Details& details) {
    expect_whole(operation, what);
    const std::string key = fmt::format("{} {}", operation, what);
    if (size() > 1 && !seen_.contains(key)) {
      const std::string mine =
          fmt::format("{} \"{}\" of {} after {} calls", operation, what, details(), traffic.calls);
      const auto all = control.gather_text(mine, "krama::comm: first call");
      for (std::size_t r = 0; r < all.size(); ++r) {
        KRAMA_EXPECTS(all[r] == all[0],
                      "the ranks of communicator \"{}\" called different operations: rank 0: {}; "
                      "rank {}: {}. Every rank must make the same calls in the same order",
                      name, all[0], r, all[r]);
      }
      seen_.insert(key);
    }
    ++traffic.calls;
  }

  /// A result of the library's; an error breaks the communicator.
  void check(Result result, std::string_view operation, std::string_view what) {
    if (Library::good(result) || Library::in_progress(result)) [[likely]]
      return;
    fail(fmt::format("{} \"{}\" on communicator \"{}\": {} failed on rank {} of {}: {}", operation,
                     what, name, Library::name, rank(), size(), Library::text(result, comm_)));
  }

  /// Returns when the library has taken what it was given.
  void settle(std::string_view operation, std::string_view what) {
    wait_until(operation, what, [&] {
      const Result r = Library::state(comm_);
      check(r, operation, what);
      return Library::good(r);
    });
  }

  /// Returns when the event has come. An error of the library's, its own or another rank's, ends the
  /// wait; so does the watchdog, for a rank that died and that the library does not miss.
  void wait_for(const typename Library::Event& event, std::string_view operation,
                std::string_view what) {
    wait_until(operation, what, [&] {
      check(Library::state(comm_), operation, what);
      return event.ready();
    });
  }

 private:
  template <class Done>
  void wait_until(std::string_view operation, std::string_view what, Done&& done) {
    const auto begin = Clock::now();
    while (!done()) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (watchdog_seconds > 0 && seconds > watchdog_seconds) {
        fail(to_string(StallReport{name, operation, what, seconds, {}, {}}));
      }
      sched_yield();
    }
  }

  [[noreturn]] void fail(const std::string& why) {
    broken = why;
    if (std::exchange(started_, false)) Library::abort(comm_);
    throw Error(why);
  }

  void check_vendors() {
    const auto all =
        control.gather_text(kokkos_ext::device_facts(exec).vendor, "krama::comm: vendor");
    for (std::size_t r = 0; r < all.size(); ++r) {
      KRAMA_EXPECTS(
          all[r] == all[0],
          "communicator \"{}\": {} joins devices of one vendor, but rank 0 has \"{}\" and "
          "rank {} \"{}\"; split the ranks by their group first",
          name, Library::name, all[0], r, all[r]);
    }
  }

  typename Library::Id agree_on_id() {
    typename Library::Id id{};
    static_assert(std::is_trivially_copyable_v<typename Library::Id>);
    std::string mine;
    if (rank() == 0) {
      const Result r = Library::make_id(id);
      mine = Library::good(r) ? "+" + std::string(reinterpret_cast<const char*>(&id), sizeof(id))
                              : "-" + Library::text(r, nullptr);
    }
    const std::string first = control.gather_text(mine, "krama::comm: identity")[0];
    KRAMA_EXPECTS(first.size() == 1 + sizeof(id) && first[0] == '+',
                  "communicator \"{}\": {} cannot start on rank 0: {}", name, Library::name,
                  first.substr(1));
    std::memcpy(&id, first.data() + 1, sizeof(id));
    return id;
  }

  typename Library::Comm comm_{};
  bool started_ = false;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace krama::comm::detail
