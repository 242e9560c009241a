// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/element_type.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace krama::io {

/// Name, type and shape of a tensor that is to be written.
struct TensorSpec {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> extents;
};

/// A tensor in a file: its bytes are [begin, end) of the file's data part, row-major,
/// little-endian.
struct TensorEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> extents;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t bytes() const noexcept { return end - begin; }
};

/// "[2, 3]", for messages.
[[nodiscard]] std::string to_text(std::span<const std::int64_t> extents);

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE std::string to_text(std::span<const std::int64_t> extents) {
  std::string text = "[";
  for (std::size_t d = 0; d < extents.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(extents[d]);
  }
  return text + "]";
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
