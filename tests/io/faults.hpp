// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <krama/io/detail/sys_calls.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>

namespace io_test {

/// System calls that go wrong on demand: at call number `at` (counted over all kinds, from 1).
struct Faults {
  enum class Kind { none, kill, kill_half, fail, hiccup };
  static inline Kind kind = Kind::none;
  static inline int at = 0;
  static inline int count = 0;
  static inline int error = 0;

  static void plan(Kind k, int call, int err = 0) {
    kind = k;
    at = call;
    count = 0;
    error = err;
  }

  /// \return true if this call is to fail
  static bool strikes() {
    ++count;
    if (kind == Kind::kill && count == at) ::kill(::getpid(), SIGKILL);
    if (kind == Kind::fail && count == at) {
      errno = error;
      return true;
    }
    return false;
  }

  /// How much of a write to do: all, or half of it and then death, or little, every other time
  /// EINTR.
  static std::size_t portion(std::size_t bytes) {
    if (kind == Kind::kill_half && count == at) return bytes / 2;
    if (kind == Kind::hiccup) return count % 2 == 0 ? 0 : std::min<std::size_t>(bytes, 1000);
    return bytes;
  }

  static ssize_t write(int fd, const void* data, std::size_t bytes) {
    if (strikes()) return -1;
    const std::size_t part = portion(bytes);
    if (part == 0 && kind == Kind::hiccup) {
      errno = EINTR;
      return -1;
    }
    const ssize_t done = ::write(fd, data, part);
    if (kind == Kind::kill_half && count == at) ::kill(::getpid(), SIGKILL);
    return done;
  }
  static ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) {
    if (strikes()) return -1;
    const std::size_t part = portion(bytes);
    if (part == 0 && kind == Kind::hiccup) {
      errno = EINTR;
      return -1;
    }
    const ssize_t done = ::pwrite(fd, data, part, offset);
    if (kind == Kind::kill_half && count == at) ::kill(::getpid(), SIGKILL);
    return done;
  }
  static int fsync(int fd) { return strikes() ? -1 : ::fsync(fd); }
  static int close(int fd) {
    const bool bad = strikes();
    const int error_before = errno;
    const int done = ::close(fd);  // a failing close releases the descriptor all the same
    errno = bad ? error_before : errno;
    return bad ? -1 : done;
  }
  static int rename(const char* from, const char* to) {
    return strikes() ? -1 : std::rename(from, to);
  }

  static krama::io::detail::SysCalls calls() {
    return {.write = write, .pwrite = pwrite, .fsync = fsync, .close = close, .rename = rename};
  }
};

}  // namespace io_test
