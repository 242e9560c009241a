// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace krama {

/// Integers as text with `separator` between them: "2, 3, 5". (fmt::join does the same, but makes
/// every translation unit compile fmt's own formatting of integers: a second each.)
template <class Range>
std::string join(const Range& values, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& value : values) {
    if (!first) text += separator;
    text += std::to_string(value);
    first = false;
  }
  return text;
}

/// The parts of a text between separators; one more than there are separators.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace krama
