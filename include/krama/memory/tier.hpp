// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// The far tier could not be made, written or read.
class TierError : public Error {
 public:
  // Not an inherited constructor: nvcc fails on the default argument of Error's.
  explicit TierError(const std::string& message) : Error(message) {}
};

/// The system calls that the file tier makes; tests hand in their own, to fail.
struct TierCalls {
  ssize_t (*pwrite)(int, const void*, std::size_t, off_t) = ::pwrite;
  ssize_t (*pread)(int, void*, std::size_t, off_t) = ::pread;
  int (*reserve)(int, off_t, off_t) = ::posix_fallocate;
};

/// Where a far tier is made.
struct TierOptions {
  std::string folder = {};  ///< for its file; empty: memory outside the process's own (memfd)
  TierCalls calls = {};
};

/// Far memory of hosts: a file outside the process's own memory, all of its space reserved at once, so
/// that a full disk shows before step 1. In `folder`, where it has no name and is gone with the
/// process; or, with no folder, in the machine's memory (memfd).
class FileTier {
 public:
  /// \throws TierError when the folder cannot be written or has no room
  FileTier(std::string folder, std::int64_t bytes, TierCalls calls = {});
  FileTier(const FileTier&) = delete;
  FileTier& operator=(const FileTier&) = delete;
  ~FileTier();

  /// The whole of it as memory: what is written there is what `read` gives, and the other way round.
  /// It is not the process's own (anonymous) memory. \throws TierError
  std::byte* map();

  void write(std::int64_t offset, const std::byte* from, std::int64_t bytes) const;
  void read(std::int64_t offset, std::byte* to, std::int64_t bytes) const;

 private:
  template <class Call>
  void move(std::int64_t offset, std::int64_t bytes, const char* what, const Call& call) const {
    for (std::int64_t done = 0; done < bytes;) {
      const ssize_t n =
          call(done, static_cast<std::size_t>(bytes - done), static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      // Nothing moved and no error: the file has been cut short.
      check(n > 0, fmt::format("{} {} bytes at {}", what, bytes - done, offset + done),
            n < 0 ? errno : EIO);
      done += n;
    }
  }
  void check(bool good, const std::string& what, int error) const;

  TierCalls calls_;
  std::string place_;
  int fd_ = -1;
  std::size_t bytes_ = 0;
  std::byte* mapped_ = nullptr;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE FileTier::FileTier(std::string folder, std::int64_t bytes, TierCalls calls)
    : calls_(calls), place_(folder.empty() ? "memory (memfd)" : "\"" + folder + "\"") {
  if (folder.empty()) {
    fd_ = ::memfd_create("krama-swap", MFD_CLOEXEC);
    check(fd_ >= 0, "make a file", errno);
  } else {
    std::string name = folder + "/krama-swap-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    check(fd_ >= 0, "make a file", errno);
    ::unlink(name.c_str());
  }
  if (bytes <= 0) return;
  bytes_ = static_cast<std::size_t>(bytes);
  const int error = calls_.reserve(fd_, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    ::close(std::exchange(fd_, -1));
    check(false, fmt::format("reserve {} bytes", bytes), error);
  }
}

KRAMA_INLINE FileTier::~FileTier() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

KRAMA_INLINE std::byte* FileTier::map() {
  if (mapped_ == nullptr && bytes_ > 0) {
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    check(at != MAP_FAILED, fmt::format("map {} bytes", bytes_), errno);
    mapped_ = static_cast<std::byte*>(at);
  }
  return mapped_;
}

KRAMA_INLINE void FileTier::write(std::int64_t offset, const std::byte* from,
                                  std::int64_t bytes) const {
  move(offset, bytes, "write", [&](std::int64_t done, std::size_t n, off_t at) {
    return calls_.pwrite(fd_, from + done, n, at);
  });
}

KRAMA_INLINE void FileTier::read(std::int64_t offset, std::byte* to, std::int64_t bytes) const {
  move(offset, bytes, "read", [&](std::int64_t done, std::size_t n, off_t at) {
    return calls_.pread(fd_, to + done, n, at);
  });
}

KRAMA_INLINE void FileTier::check(bool good, const std::string& what, int error) const {
  if (good) return;
  std::string hint = "choose another scratch folder";
  if (error == ENOSPC || error == EDQUOT) hint = "free some space or choose another folder";
  if (error == EFBIG) hint = "a file size limit is in force, see ulimit -f";
  throw TierError(fmt::format("swap file in {}: cannot {}: {}; {}", place_, what,
                              std::generic_category().message(error), hint));
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
