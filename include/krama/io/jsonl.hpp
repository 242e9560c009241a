// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <krama/definitions.hpp>
#include <krama/io/detail/descriptor.hpp>
#include <krama/io/detail/sys_calls.hpp>
#include <krama/io/error.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace krama::io {

/// Appends JSON values to a file, one per line, each handed to the system before `write` returns: a
/// killed process loses nothing it has written. An existing file is continued; a last line without
/// its end (its writer was killed in mid-line) is cut off first. A line that cannot be written
/// whole is taken back and FileError thrown. JSON has no NaN and no infinity: such numbers become
/// null.
class JsonLines {
 public:
  explicit JsonLines(const std::filesystem::path& path, const detail::SysCalls& calls = {});
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  JsonLines(JsonLines&&) = default;
  JsonLines& operator=(JsonLines&&) = default;
  ~JsonLines() = default;

  void write(const nlohmann::json& value);

  /// Closes the file and reports what the system only says then. Optional: no line waits for it.
  void close();

 private:
  void cut_torn_line(std::int64_t size);

  detail::SysCalls calls_;
  std::string name_;
  detail::Descriptor fd_;
  bool regular_ = false;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE JsonLines::JsonLines(const std::filesystem::path& path, const detail::SysCalls& calls)
    : calls_(calls), name_(path.string()) {
  do {
    fd_ = detail::Descriptor(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  } while (!fd_ && errno == EINTR);
  if (!fd_) throw detail::system_failure(name_, "cannot be opened for appending", errno);
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) {
    throw detail::system_failure(name_, "cannot be examined", errno);
  }
  regular_ = S_ISREG(status.st_mode);
  if (regular_) cut_torn_line(static_cast<std::int64_t>(status.st_size));
}

KRAMA_INLINE void JsonLines::write(const nlohmann::json& value) {
  if (!fd_) throw std::logic_error("JsonLines: " + name_ + " is closed");
  const std::string line =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  struct stat before{};
  const bool known = regular_ && ::fstat(fd_.get(), &before) == 0;
  const int error =
      detail::write_all(calls_, fd_.get(), std::as_bytes(std::span(line.data(), line.size())));
  if (error == 0) return;
  if (known && ::ftruncate(fd_.get(), before.st_size) != 0) {
    throw detail::system_failure(name_, "line not written, and its beginning not removed", error);
  }
  throw detail::system_failure(name_, "line not written", error);
}

KRAMA_INLINE void JsonLines::close() {
  if (fd_ && calls_.close(fd_.release()) != 0 && errno != EINTR) {
    throw detail::system_failure(name_, "closing failed", errno);
  }
}

KRAMA_INLINE void JsonLines::cut_torn_line(std::int64_t size) {
  std::int64_t keep = size;
  std::array<char, 4096> block{};
  bool found = size == 0;
  for (std::int64_t end = size; end > 0 && !found;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - std::int64_t{block.size()});
    const auto count = static_cast<std::size_t>(end - begin);
    ssize_t got = 0;
    do {
      got = ::pread(fd_.get(), block.data(), count, static_cast<off_t>(begin));
    } while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(count)) {
      throw detail::system_failure(name_, "its last line cannot be read", got < 0 ? errno : EIO);
    }
    const std::size_t at = std::string_view(block.data(), count).rfind('\n');
    found = at != std::string_view::npos;
    keep = found ? begin + static_cast<std::int64_t>(at) + 1 : 0;
    end = begin;
  }
  if (keep != size && ::ftruncate(fd_.get(), static_cast<off_t>(keep)) != 0) {
    throw detail::system_failure(name_, "its unfinished last line cannot be removed", errno);
  }
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
