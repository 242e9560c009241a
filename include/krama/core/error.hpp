// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <fmt/core.h>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace krama {

/// What every check of Krama throws. The message says what is wrong, where, what was found and what
/// was wanted; `where()` is the place in the source that noticed it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 std::source_location where = std::source_location::current())
      : std::runtime_error(message), where_(where) {}

  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  std::source_location where_;
};

/// A request for memory that a budget or the machine could not meet.
class OutOfMemory : public Error {
 public:
  OutOfMemory(std::string_view label, std::int64_t bytes, std::string_view space,
              std::string_view reason, std::source_location where = std::source_location::current())
      : Error(fmt::format("out of memory: \"{}\" wants {} bytes in {}: {}", label, bytes, space,
                          reason),
              where),
        bytes_(bytes) {}

  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_;
};

namespace detail {
[[noreturn]] inline void fail(std::source_location where, std::string_view format,
                              fmt::format_args args) {
  throw Error(fmt::vformat(fmt::string_view(format.data(), format.size()), args), where);
}
}  // namespace detail

}  // namespace krama

/// Throws `krama::Error` with the formatted message unless `cond` holds. Always on, Release
/// included: for checks at the outer borders of the library.
#define KRAMA_EXPECTS(cond, ...)                                                     \
  do {                                                                               \
    if (!(cond)) [[unlikely]] {                                                      \
      ::krama::detail::expects_failed(std::source_location::current(), __VA_ARGS__); \
    }                                                                                \
  } while (false)

namespace krama::detail {
template <class... Args>
[[noreturn]] void expects_failed(std::source_location where, fmt::format_string<Args...> format,
                                 Args&&... args) {
  const fmt::string_view text = format;
  fail(where, std::string_view(text.data(), text.size()), fmt::make_format_args(args...));
}
}  // namespace krama::detail

/// Checks inside kernels (bounds, NaN): compiled in only with KRAMA_ENABLE_CHECKS; aborts.
#ifdef KRAMA_CHECKS
#define KRAMA_ASSERT(cond)                                         \
  do {                                                             \
    if (!(cond)) Kokkos::abort("krama: assertion failed: " #cond); \
  } while (false)
#else
#define KRAMA_ASSERT(cond) ((void)0)
#endif
