// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include <krama/testing/guarded/arena.hpp>

/// What happens when the host touches the stand-in device's memory: one line that names the
/// allocation, the stack, and then whatever the process does with a bad address (a debugger's stop,
/// Catch2's report, the end).
namespace krama::testing::guarded {

namespace detail {

inline void say(const char* text) {
  // Nothing can be done about a closed stderr here.
  [[maybe_unused]] const auto n = write(STDERR_FILENO, text, std::strlen(text));
}
inline void say(std::uint64_t number) {
  char digits[24];
  char* p = digits + sizeof(digits) - 1;
  *p = '\0';
  do {
    *--p = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  say(p);
}

inline struct sigaction& handler_before() {
  static struct sigaction before = {};
  return before;
}
inline std::atomic<bool>& told() {
  static std::atomic<bool> flag{false};
  return flag;
}

/// Only what is allowed in a signal handler (and `backtrace`, warmed up by `watch_for_faults`).
inline void on_fault(int signal, siginfo_t* info, void* /*context*/) {
  const Arena& arena = Arena::get();
  // Handlers that give the signal on to each other must not do so for ever.
  if (told().exchange(true)) {
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
    return;
  }
  if (arena.holds(info->si_addr)) {
    const Slot* slot = arena.find(info->si_addr);
    if (slot == nullptr) {
      say("krama guarded device: access to device memory that is not allocated (any more)\n");
    } else {
      const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr) - slot->begin;
      say("krama guarded device: the host touched device memory: label \"");
      say(slot->label);
      say("\", byte ");
      say(static_cast<std::uint64_t>(at < slot->header ? 0 : at - slot->header));
      say("; copy it to the host (krama::download), or use it in a kernel\n");
    }
    void* frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
  }
  // The instruction is tried again when this returns and meets the handler that was there before.
  sigaction(signal, &handler_before(), nullptr);
}

}  // namespace detail

/// Installs the handler unless it is in place. Test frameworks set their own for every test, so this
/// is asked for whenever device memory is opened.
inline void watch_for_faults() {
  struct sigaction now = {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &detail::on_fault) return;
  Arena::get();
  void* frame[1];
  backtrace(frame, 1);  // loads what it needs now, not in the handler
  detail::handler_before() = now;
  struct sigaction ours = {};
  ours.sa_sigaction = &detail::on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

/// Device memory may be touched while one of these lives.
class Open {
 public:
  Open() {
    watch_for_faults();
    Arena::get().open();
  }
  ~Open() { Arena::get().close(); }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
};

}  // namespace krama::testing::guarded
