// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <krama/definitions.hpp>
#include <krama/io/error.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>

namespace krama::io::detail {

/// The system calls that writers make. Tests hand in their own, to fail or be killed at each of
/// them.
struct SysCalls {
  ssize_t (*write)(int, const void*, std::size_t) = ::write;
  ssize_t (*pwrite)(int, const void*, std::size_t, off_t) = ::pwrite;
  int (*fsync)(int) = ::fsync;
  int (*close)(int) = ::close;
  int (*rename)(const char*, const char*) = std::rename;
};

/// While it lives, a write beyond the file size limit (ulimit -f) fails with EFBIG in this thread;
/// by default the SIGXFSZ that comes with it ends the process without a word.
class HoldSizeSignal {
 public:
  HoldSizeSignal();
  HoldSizeSignal(const HoldSizeSignal&) = delete;
  HoldSizeSignal& operator=(const HoldSizeSignal&) = delete;
  ~HoldSizeSignal();

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

/// The error of a system call that a writer made on `file`.
[[nodiscard]] FileError system_failure(const std::string& file, const std::string& what, int error);

/// Writes all of `bytes` at `offset`, or at the descriptor's position where that is negative.
/// Resumes after short writes and EINTR. \return 0, or the errno of the call that failed
[[nodiscard]] int write_all(const SysCalls& calls, int fd, std::span<const std::byte> bytes,
                            off_t offset = -1);

}  // namespace krama::io::detail

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE HoldSizeSignal::HoldSizeSignal() {
  sigemptyset(&signal_);
  sigaddset(&signal_, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signal_, &before_);
}

KRAMA_INLINE HoldSizeSignal::~HoldSizeSignal() {
  if (sigismember(&before_, SIGXFSZ) == 0) {
    const timespec now{};
    while (sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

KRAMA_INLINE FileError system_failure(const std::string& file, const std::string& what, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "free some space or choose another folder";
  if (error == EFBIG) hint = "a file size limit is in force, see ulimit -f";
  return FileError({.file = file, .what = what, .found = system_text(error), .hint = hint});
}

KRAMA_INLINE int write_all(const SysCalls& calls, int fd, std::span<const std::byte> bytes,
                           off_t offset) {
  const HoldSizeSignal hold;
  while (!bytes.empty()) {
    const ssize_t done = offset < 0 ? calls.write(fd, bytes.data(), bytes.size())
                                    : calls.pwrite(fd, bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return EIO;  // never for a non-empty write to a file; do not spin on it
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    if (offset >= 0) offset += done;
  }
  return 0;
}

}  // namespace krama::io::detail

#endif  // KRAMA_DEFINITIONS
