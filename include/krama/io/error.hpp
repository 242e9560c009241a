// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <krama/definitions.hpp>

namespace krama::io {

/// The parts of a `FileError`. Only `file` and `what` are always there.
struct FileProblem {
  std::string file;         ///< path as the caller gave it
  std::string what;         ///< one clause: what is wrong
  std::string found = {};   ///< what the file has
  std::string wanted = {};  ///< what it should have
  std::string hint = {};    ///< what to do about it
};

/// What every reader and writer of `io` throws when a file is not what it should be, or when the
/// system refuses an operation on it. `what()` is one line: file, problem, found, wanted, hint.
/// Derives from std::runtime_error and not from `krama::Error`: `io` knows the standard library
/// only.
class FileError : public std::runtime_error {
 public:
  explicit FileError(FileProblem problem)
      : std::runtime_error(compose(problem)), problem_(std::move(problem)) {}

  [[nodiscard]] const std::string& file() const noexcept { return problem_.file; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_.what; }
  [[nodiscard]] const std::string& found() const noexcept { return problem_.found; }
  [[nodiscard]] const std::string& wanted() const noexcept { return problem_.wanted; }
  [[nodiscard]] const std::string& hint() const noexcept { return problem_.hint; }

 private:
  static std::string compose(const FileProblem& p);

  FileProblem problem_;
};

namespace detail {

/// `text` in quotes, fit for a message: bytes outside printable ASCII as \xNN, cut at `limit`
/// bytes. Names come out of files that may be hostile; they must not reach a terminal as they are.
std::string in_quotes(std::string_view text, std::size_t limit = 80);

/// The system's words for an errno value (thread-safe, unlike std::strerror).
inline std::string system_text(int error) { return std::generic_category().message(error); }

}  // namespace detail
}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE std::string FileError::compose(const FileProblem& p) {
  std::string text = p.file + ": " + p.what;
  if (!p.found.empty()) text += ": found " + p.found;
  if (!p.wanted.empty()) text += (p.found.empty() ? ": wanted " : ", wanted ") + p.wanted;
  if (!p.hint.empty()) text += " (" + p.hint + ")";
  return text;
}

}  // namespace krama::io

namespace krama::io::detail {

KRAMA_INLINE std::string in_quotes(std::string_view text, std::size_t limit) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      out += "\\x";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    }
  }
  out += text.size() > limit ? "...\"" : "\"";
  return out;
}

}  // namespace krama::io::detail

#endif  // KRAMA_DEFINITIONS
