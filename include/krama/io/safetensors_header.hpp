// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/detail/bytes.hpp>
#include <krama/io/detail/safetensors_sax.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <krama/io/tensor_entry.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace krama::io {

/// A checked safetensors header: tensors in the order of their bytes, which tile the data exactly.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

namespace detail {

/// The format's own limit on the JSON text, so that a length out of a damaged file allocates
/// nothing.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

/// Checks the length field against the limit and the file. \return bytes of JSON
[[nodiscard]] std::int64_t check_safetensors_length(std::uint64_t length, std::int64_t file_bytes,
                                                    const std::string& file);

/// One tensor: its span must be inside the data and as long as type and shape say.
void check_entry(const TensorEntry& t, std::int64_t data_bytes, const std::string& file);

/// Sorted tensors must follow each other without gap or overlap and end with the data.
void check_tiling(const std::vector<TensorEntry>& sorted, std::int64_t data_bytes,
                  const std::string& file);

/// No two tensors (entries or specs) may have one name.
template <class Named>
void check_names(const std::vector<Named>& tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const Named& t : tensors) names.push_back(t.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    throw FileError(
        {.file = file, .what = "duplicate key: tensor " + in_quotes(*twice) + " twice"});
  }
}

}  // namespace detail

/// Parses and checks the JSON of a safetensors header. `data_bytes`: bytes behind it in the file.
/// Everything that can be wrong is found here, before a byte of data is read or allocated for: it
/// is O(n log n) in the number of tensors. Touches no file; `file` is for messages.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json,
                                                         std::int64_t data_bytes,
                                                         const std::string& file);

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE std::int64_t check_safetensors_length(std::uint64_t length, std::int64_t file_bytes,
                                                   const std::string& file) {
  if (length < 2 || length > safetensors_header_limit) {
    throw FileError({.file = file,
                     .what = "bad safetensors header length",
                     .found = std::to_string(length),
                     .wanted = "2 to " + std::to_string(safetensors_header_limit) + " bytes",
                     .hint = "is this a safetensors file?"});
  }
  const auto bytes = static_cast<std::int64_t>(length);
  if (bytes > file_bytes - 8) {
    throw InputFile::truncated(file, bytes + 8, file_bytes, "the safetensors header");
  }
  return bytes;
}

KRAMA_INLINE void check_entry(const TensorEntry& t, std::int64_t data_bytes,
                              const std::string& file) {
  const auto fail = [&](const std::string& what, const std::string& found,
                        const std::string& wanted) {
    throw FileError({.file = file,
                     .what = "tensor " + in_quotes(t.name) + ": " + what,
                     .found = found,
                     .wanted = wanted});
  };
  const auto span = [&t] {
    return "[" + std::to_string(t.begin) + ", " + std::to_string(t.end) + "]";
  };
  if (t.begin > t.end) fail("data_offsets run backwards", span(), "begin <= end");
  if (t.end > data_bytes) {
    fail("data_offsets beyond the end of the data", span(),
         "at most " + std::to_string(data_bytes) + " (is the file truncated?)");
  }
  const auto want = packed_bytes(t.extents, size_of(t.type));
  if (!want) fail("the shape multiplies to more than 2^63 bytes", to_text(t.extents), "less");
  if (*want != t.bytes()) {
    fail("data_offsets do not fit shape and dtype",
         span() + ", " + std::to_string(t.bytes()) + " bytes",
         std::to_string(*want) + " for " + std::string(name_of(t.type)) + to_text(t.extents));
  }
}

KRAMA_INLINE void check_tiling(const std::vector<TensorEntry>& sorted, std::int64_t data_bytes,
                               const std::string& file) {
  std::int64_t cursor = 0;
  for (const TensorEntry& t : sorted) {
    if (t.begin != cursor) {
      throw FileError(
          {.file = file,
           .what = "tensor " + in_quotes(t.name) +
                   (t.begin < cursor ? " overlaps its predecessor" : " leaves a hole before it"),
           .found = "begin " + std::to_string(t.begin),
           .wanted = std::to_string(cursor)});
    }
    cursor = t.end;
  }
  if (cursor != data_bytes) {
    throw FileError({.file = file,
                     .what = "has bytes that belong to no tensor",
                     .found = std::to_string(data_bytes) + " bytes of data",
                     .wanted = std::to_string(cursor)});
  }
}

}  // namespace krama::io::detail

namespace krama::io {

KRAMA_INLINE SafetensorsHeader parse_safetensors_header(std::string_view json,
                                                        std::int64_t data_bytes,
                                                        const std::string& file) {
  const auto fail = [&](const std::string& found, const std::string& wanted) {
    throw FileError(
        {.file = file, .what = "bad safetensors header", .found = found, .wanted = wanted});
  };
  if (json.empty() || json.front() != '{') fail("no '{' at its start", "a JSON object");
  // The JSON parser takes a zero byte for the end of its input and would not look at what follows.
  if (json.find('\0') != std::string_view::npos) fail("a zero byte", "JSON text");
  detail::SafetensorsSax sax(file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &sax);
  SafetensorsHeader header{.tensors = std::move(sax.tensors), .metadata = std::move(sax.metadata)};
  for (const TensorEntry& t : header.tensors) detail::check_entry(t, data_bytes, file);
  detail::check_names(header.tensors, file);
  // Tensors without bytes come before the one that starts where they stand.
  std::ranges::sort(header.tensors, [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin
           : a.end != b.end   ? a.end < b.end
                              : a.name < b.name;
  });
  detail::check_tiling(header.tensors, data_bytes, file);
  return header;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
