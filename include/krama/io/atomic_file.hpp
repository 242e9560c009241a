// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <krama/definitions.hpp>
#include <krama/io/detail/descriptor.hpp>
#include <krama/io/detail/sys_calls.hpp>
#include <krama/io/error.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace krama::io {

/// Replaces a file as a whole or not at all. Bytes go to `<target>.tmp` beside the target; `commit`
/// flushes it to the disk, renames it over the target and flushes the folder. Whoever reads the
/// target sees the old file or the new one, whenever this process is killed. If anything fails, the
/// temporary file is removed and the old file is as it was. A temporary file that a killed process
/// left is used again by the next writer of the same target; two live writers of one target are an
/// error. A symbolic link at the target is replaced, not followed. Blocking; not for use by several
/// threads.
class AtomicFile {
 public:
  /// Opens the temporary file. `expected_bytes`: refuse at once if the disk has fewer free.
  explicit AtomicFile(const std::filesystem::path& target, std::int64_t expected_bytes = 0,
                      const detail::SysCalls& calls = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Without a `commit` before it, the temporary file is removed and the target left alone.
  ~AtomicFile() { discard(); }

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Overwrites bytes already written, for headers that hold sums over what follows them.
  void rewrite(std::int64_t offset, std::span<const std::byte> bytes);

  /// Bytes written so far.
  [[nodiscard]] std::int64_t size() const noexcept { return written_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Makes the new file the target's content, on disk. After an error here the old file is still in
  /// place, with one exception that the message names: the folder could not be flushed.
  void commit();

 private:
  static constexpr std::size_t buffer_bytes = 256 * 1024;

  [[nodiscard]] std::filesystem::path folder() const {
    return target_.has_parent_path() ? target_.parent_path() : std::filesystem::path(".");
  }

  void check_space(std::int64_t expected_bytes) const;

  void open_temp();

  void flush();

  void flush_folder() const;

  void check(int error, const std::string& what);

  void expect_open() const {
    if (!fd_) throw std::logic_error("AtomicFile: " + name_ + " is committed or has failed");
  }

  void discard() noexcept;

  detail::SysCalls calls_;
  std::filesystem::path target_;
  std::filesystem::path temp_;
  std::string name_;
  detail::Descriptor fd_;
  std::vector<std::byte> buffer_;
  std::int64_t written_ = 0;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE AtomicFile::AtomicFile(const std::filesystem::path& target,
                                    std::int64_t expected_bytes, const detail::SysCalls& calls)
    : calls_(calls), target_(target), temp_(target.string() + ".tmp"), name_(target.string()) {
  std::error_code ignored;
  const auto kind = std::filesystem::symlink_status(target, ignored).type();
  using std::filesystem::file_type;
  if (kind != file_type::not_found && kind != file_type::regular && kind != file_type::symlink) {
    throw FileError({.file = name_,
                     .what = "cannot be replaced",
                     .found = kind == file_type::directory ? "a folder" : "a device or pipe",
                     .wanted = "a regular file or nothing"});
  }
  check_space(expected_bytes);
  open_temp();
  buffer_.reserve(buffer_bytes);
}

KRAMA_INLINE void AtomicFile::write(std::span<const std::byte> bytes) {
  expect_open();
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() >= buffer_bytes) {
    check(detail::write_all(calls_, fd_.get(), bytes), "write failed");
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  written_ += static_cast<std::int64_t>(bytes.size());
}

KRAMA_INLINE void AtomicFile::rewrite(std::int64_t offset, std::span<const std::byte> bytes) {
  expect_open();
  if (offset < 0 || offset + static_cast<std::int64_t>(bytes.size()) > written_) {
    throw std::logic_error("AtomicFile: rewrite beyond what was written");
  }
  flush();
  check(detail::write_all(calls_, fd_.get(), bytes, static_cast<off_t>(offset)), "write failed");
}

KRAMA_INLINE void AtomicFile::commit() {
  expect_open();
  flush();
  check(calls_.fsync(fd_.get()) == 0 ? 0 : errno, "flushing to disk failed");
  // Network file systems report late errors in close, but closing drops the lock, and the file
  // must not lose it before the rename. Closing a duplicate reports the same errors and keeps the
  // lock.
  const int duplicate = ::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0);
  check(duplicate >= 0 ? 0 : errno, "closing failed");
  check(calls_.close(duplicate) == 0 ? 0 : errno, "closing failed");
  check(calls_.rename(temp_.c_str(), target_.c_str()) == 0 ? 0 : errno,
        "renaming " + temp_.string() + " failed");
  fd_.reset();
  flush_folder();
}

KRAMA_INLINE void AtomicFile::check_space(std::int64_t expected_bytes) const {
  struct statvfs disk{};
  // Some network file systems report no size at all; then only the writes themselves can tell.
  if (expected_bytes <= 0 || ::statvfs(folder().c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const auto blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  const double free = static_cast<double>(blocks) * static_cast<double>(disk.f_frsize);
  if (static_cast<double>(expected_bytes) > free) {
    throw FileError({.file = name_,
                     .what = "not enough space on the disk",
                     .found = std::to_string(static_cast<std::int64_t>(free)) + " bytes free",
                     .wanted = std::to_string(expected_bytes) + " bytes",
                     .hint = "an existing file is kept until the new one is complete"});
  }
}

KRAMA_INLINE void AtomicFile::open_temp() {
  // Another writer may rename or remove the file between our open and our lock; then what we hold
  // is no longer the file of that name (it may be the fresh target!), and we start again.
  for (;;) {
    constexpr int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    detail::Descriptor fd(::open(temp_.c_str(), flags, 0666));
    if (!fd && errno == EINTR) continue;
    if (!fd) throw detail::system_failure(temp_.string(), "cannot be created", errno);
    // File systems without locks (some network ones) are used without.
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw FileError({.file = name_, .what = "is being written by somebody else right now"});
    }
    struct stat ours{};
    struct stat named{};
    if (::fstat(fd.get(), &ours) != 0 || ::lstat(temp_.c_str(), &named) != 0 ||
        ours.st_ino != named.st_ino || ours.st_dev != named.st_dev) {
      continue;
    }
    if (!S_ISREG(ours.st_mode) || ::ftruncate(fd.get(), 0) != 0) {
      throw detail::system_failure(temp_.string(), "cannot be written to", errno);
    }
    fd_ = std::move(fd);
    return;
  }
}

KRAMA_INLINE void AtomicFile::flush() {
  if (buffer_.empty()) return;
  const int error = detail::write_all(calls_, fd_.get(), buffer_);
  buffer_.clear();
  check(error, "write failed");
}

KRAMA_INLINE void AtomicFile::flush_folder() const {
  detail::Descriptor fd(::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int error = fd && calls_.fsync(fd.get()) == 0 ? 0 : errno;
  // EINVAL: the file system has no such operation; EACCES: a folder one may write in but not
  // read.
  if (error == 0 || error == EINVAL || error == EACCES) return;
  throw detail::system_failure(
      name_, "is complete and in place, but its folder could not be flushed to disk", error);
}

KRAMA_INLINE void AtomicFile::check(int error, const std::string& what) {
  if (error == 0) return;
  const auto at = " (after " + std::to_string(written_) + " bytes; an existing file is untouched)";
  discard();
  throw detail::system_failure(name_, what + at, error);
}

KRAMA_INLINE void AtomicFile::discard() noexcept {
  if (!fd_) return;
  // First, while we hold the lock: later the name may be another writer's.
  ::unlink(temp_.c_str());
  fd_.reset();
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
