// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/detail/bytes.hpp>
#include <krama/io/element_type.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace krama::io {

/// What the first bytes of an idx file (the format of MNIST and its relatives) say.
struct IdxHeader {
  ElementType type = ElementType::u8;
  std::vector<std::int64_t> extents;
  std::int64_t data_offset = 0;
  std::int64_t data_bytes = 0;
};

/// An idx file: row-major data, already in the machine's byte order.
struct IdxArray {
  std::string file;
  ElementType type = ElementType::u8;
  std::vector<std::int64_t> extents;
  std::vector<std::byte> data;
};

namespace detail {
[[nodiscard]] std::optional<ElementType> idx_type(std::uint8_t code);

/// The largest header: magic and 255 extents.
inline constexpr std::int64_t idx_header_limit = 4 + 4 * 255;
}  // namespace detail

/// Parses and checks an idx header: bytes 0 0, type, number of dimensions d, then d big-endian u32.
/// `head`: the first bytes of the file, all of it or at least 1,024. `file_bytes`: size of the
/// file, which must be exactly what the header asks for. Touches no file; `file` is for messages.
[[nodiscard]] IdxHeader parse_idx_header(std::span<const std::byte> head, std::int64_t file_bytes,
                                         const std::string& file);

/// Reads an idx file of any type and rank. Throws FileError: missing, empty, gzip-compressed, wrong
/// magic number, truncated, trailing bytes.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path);

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE std::optional<ElementType> idx_type(std::uint8_t code) {
  switch (code) {
    case 0x08:
      return ElementType::u8;
    case 0x09:
      return ElementType::i8;
    case 0x0b:
      return ElementType::i16;
    case 0x0c:
      return ElementType::i32;
    case 0x0d:
      return ElementType::f32;
    case 0x0e:
      return ElementType::f64;
    default:
      return std::nullopt;
  }
}

}  // namespace krama::io::detail

namespace krama::io {

KRAMA_INLINE IdxHeader parse_idx_header(std::span<const std::byte> head, std::int64_t file_bytes,
                                        const std::string& file) {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(head[i]); };
  const auto need = [&](std::int64_t bytes, const std::string& part) {
    if (static_cast<std::int64_t>(head.size()) < bytes) {
      throw InputFile::truncated(file, bytes, file_bytes, part);
    }
  };
  need(4, "the magic number");
  const auto type = detail::idx_type(at(2));
  if (at(0) != 0 || at(1) != 0 || !type) {
    throw FileError(
        {.file = file,
         .what = "is not an idx file",
         .found = "magic number " + std::to_string(detail::load_be<std::uint32_t>(head)),
         .wanted = "bytes 0, 0, a type (8, 9, 11 to 14) and the number of dimensions",
         .hint = "2051 are images, 2049 labels"});
  }
  IdxHeader header{.type = *type, .extents = {}, .data_offset = 4 + 4 * std::int64_t{at(3)}};
  need(header.data_offset, "the extents");
  for (std::size_t d = 0; d < at(3); ++d) {
    header.extents.push_back(detail::load_be<std::uint32_t>(head.subspan(4 + 4 * d)));
  }
  const auto bytes = detail::packed_bytes(header.extents, size_of(*type));
  if (!bytes || *bytes > std::numeric_limits<std::int64_t>::max() - header.data_offset) {
    throw FileError({.file = file, .what = "the extents multiply to more than 2^63 bytes"});
  }
  header.data_bytes = *bytes;
  const std::int64_t want = header.data_offset + header.data_bytes;
  if (file_bytes < want) throw InputFile::truncated(file, want, file_bytes, "header and data");
  if (file_bytes > want) {
    throw FileError({.file = file,
                     .what = "has bytes after its data",
                     .found = std::to_string(file_bytes) + " bytes",
                     .wanted = std::to_string(want) + " by its header"});
  }
  return header;
}

KRAMA_INLINE IdxArray read_idx(const std::filesystem::path& path) {
  const InputFile file(path);
  file.need(1, "an idx header");
  file.refuse_gzip();
  std::vector<std::byte> head(
      static_cast<std::size_t>(std::min(file.size(), detail::idx_header_limit)));
  file.read_at(0, head, "the idx header");
  IdxHeader header = parse_idx_header(head, file.size(), file.name());
  IdxArray array{.file = file.name(), .type = header.type, .extents = header.extents, .data = {}};
  array.data.resize(static_cast<std::size_t>(header.data_bytes));
  file.read_at(header.data_offset, array.data, "the data");
  detail::swap_items(array.data, size_of(array.type));
  return array;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
