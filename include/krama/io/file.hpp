// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <krama/definitions.hpp>
#include <krama/io/detail/descriptor.hpp>
#include <krama/io/error.hpp>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace krama::io {

/// A regular file open for reading, of a size fixed at opening. Every way in which it can fail to
/// be one has its own message: missing, a folder, a pipe or device, not readable. Reads are by
/// position and exact: they give all bytes asked for or throw.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);

  /// The path, for messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Bytes in the file when it was opened.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Throws unless the file has at least `bytes` bytes. `part` names what needs them.
  void need(std::int64_t bytes, const std::string& part) const;

  /// The error of a file that ends early.
  [[nodiscard]] static FileError truncated(const std::string& file, std::int64_t need,
                                           std::int64_t have, const std::string& part);

  /// Throws if the file starts as gzip files do: data sets are handed out compressed, and a reader
  /// of the raw format would only say "wrong magic number".
  void refuse_gzip() const;

  /// Fills `out` with the bytes from `offset` on.
  void read_at(std::int64_t offset, std::span<std::byte> out, const std::string& part) const;

 private:
  [[noreturn]] void refuse_to_open(const std::filesystem::path& path, int error) const;

  std::string name_;
  detail::Descriptor fd_;
  std::int64_t size_ = 0;
};

/// The bytes of a file. Throws FileError if it is missing, a folder, empty, or larger than
/// `max_bytes`, before anything is allocated.
[[nodiscard]] std::vector<std::byte> read_whole_file(
    const std::filesystem::path& path,
    std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max());

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE InputFile::InputFile(const std::filesystem::path& path) : name_(path.string()) {
  // O_NONBLOCK: opening a pipe must not wait for a writer; it has no effect on regular files.
  do {
    fd_ = detail::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  } while (!fd_ && errno == EINTR);
  if (!fd_) refuse_to_open(path, errno);
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) refuse_to_open(path, errno);
  if (S_ISDIR(status.st_mode)) {
    throw FileError({.file = name_, .what = "is a folder", .wanted = "a file"});
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError({.file = name_,
                     .what = "is not a regular file",
                     .found = "a pipe, socket or device",
                     .wanted = "a file of known size",
                     .hint = "write the data to a file first"});
  }
  size_ = static_cast<std::int64_t>(status.st_size);
}

KRAMA_INLINE void InputFile::need(std::int64_t bytes, const std::string& part) const {
  if (bytes <= size_) return;
  if (size_ == 0) throw FileError({.file = name_, .what = "the file is empty", .wanted = part});
  throw truncated(name_, bytes, size_, part);
}

KRAMA_INLINE FileError InputFile::truncated(const std::string& file, std::int64_t need,
                                            std::int64_t have, const std::string& part) {
  return FileError({.file = file,
                    .what = "truncated: need " + std::to_string(need) + " bytes for " + part +
                            ", have " + std::to_string(have)});
}

KRAMA_INLINE void InputFile::refuse_gzip() const {
  std::array<std::byte, 2> head{};
  if (size_ < 2) return;
  read_at(0, head, "the first two bytes");
  if (head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b}) {
    throw FileError({.file = name_,
                     .what = "is gzip-compressed",
                     .found = "1f 8b at its start",
                     .wanted = "the uncompressed file",
                     .hint = "run gunzip on it first"});
  }
}

KRAMA_INLINE void InputFile::read_at(std::int64_t offset, std::span<std::byte> out,
                                     const std::string& part) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (offset < 0 || offset > size_ || count > size_ - offset) {
    const bool fits = offset >= 0 && offset <= std::numeric_limits<std::int64_t>::max() - count;
    throw truncated(name_, fits ? offset + count : count, size_, part);
  }
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw FileError({.file = name_,
                       .what = "read failed at byte " + std::to_string(offset),
                       .found = detail::system_text(errno)});
    }
    if (got == 0) {
      throw FileError({.file = name_,
                       .what = "shrank while it was read",
                       .found = "its end at byte " + std::to_string(offset),
                       .wanted = std::to_string(size_) + " bytes"});
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::int64_t>(got);
  }
}

KRAMA_INLINE void InputFile::refuse_to_open(const std::filesystem::path& path, int error) const {
  if (error == ENOENT || error == ENOTDIR) {
    std::error_code ignored;
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    const bool folder_there = std::filesystem::is_directory(folder, ignored);
    throw FileError({.file = name_,
                     .what = "no such file",
                     .hint = folder_there
                                 ? "the folder is there, the file is not"
                                 : "the folder " + folder.string() + " does not exist either"});
  }
  throw FileError({.file = name_, .what = "cannot be opened", .found = detail::system_text(error)});
}

KRAMA_INLINE std::vector<std::byte> read_whole_file(const std::filesystem::path& path,
                                                    std::int64_t max_bytes) {
  const InputFile file(path);
  file.need(1, "any content");
  if (file.size() > max_bytes) {
    throw FileError({.file = file.name(),
                     .what = "too large",
                     .found = std::to_string(file.size()) + " bytes",
                     .wanted = "at most " + std::to_string(max_bytes)});
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  file.read_at(0, bytes, "the whole file");
  return bytes;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
