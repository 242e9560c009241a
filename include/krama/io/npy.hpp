// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/atomic_file.hpp>
#include <krama/io/detail/bytes.hpp>
#include <krama/io/element_type.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <krama/io/npy_header.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace krama::io {

/// An array out of an npy file. `values` are row-major (last index fastest) and in the machine's
/// byte order, whatever the file had: a Fortran-ordered file is transposed while reading.
template <class T>
struct NpyArray {
  std::vector<std::int64_t> extents;
  std::vector<T> values;
};

namespace detail {
/// Reorders packed items from first-index-fastest to last-index-fastest.
void fortran_to_c(std::span<const std::byte> from, std::span<std::byte> to,
                  std::span<const std::int64_t> extents, std::int64_t item);
}  // namespace detail

/// Reads an npy file whose element type must be T's; nothing is converted. Throws FileError:
/// missing, gzip-compressed, not npy, structured or object array, other element type, truncated,
/// trailing bytes.
template <class T>
[[nodiscard]] NpyArray<T> read_npy(const std::filesystem::path& path) {
  const InputFile file(path);
  file.need(1, "an npy header");
  file.refuse_gzip();
  std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 12)));
  file.read_at(0, head, "the npy prelude");
  const auto prelude = detail::parse_npy_prelude(head, file.size(), file.name());
  head.resize(static_cast<std::size_t>(prelude.data_offset));
  file.read_at(0, head, "the npy header");
  const NpyHeader header = parse_npy_header(head, file.size(), file.name());
  if (header.type != element_type_of<T>) {
    throw FileError({.file = file.name(),
                     .what = "element type mismatch: file has " + detail::in_quotes(header.descr) +
                             ", asked for " + std::string(name_of(element_type_of<T>)),
                     .hint = "in numpy: np.save(path, a.astype('" +
                             std::string(name_of(element_type_of<T>)) + "'))"});
  }
  NpyArray<T> array{.extents = header.extents, .values = {}};
  array.values.resize(static_cast<std::size_t>(header.data_bytes / size_of(header.type)));
  const auto data = std::as_writable_bytes(std::span(array.values));
  if (header.fortran_order && header.extents.size() > 1) {
    std::vector<std::byte> raw(data.size());
    file.read_at(header.data_offset, raw, "the data");
    detail::fortran_to_c(raw, data, header.extents, size_of(header.type));
  } else {
    file.read_at(header.data_offset, data, "the data");
  }
  if (header.swapped) detail::swap_items(data, size_of(header.type));
  return array;
}

/// The header that `write_npy` writes: version 1 where it fits, data at a multiple of 64 bytes.
/// Throws FileError for a type that npy does not have (bfloat16, float8).
[[nodiscard]] std::string npy_header(ElementType type, std::span<const std::int64_t> extents,
                                     const std::string& file);

/// Writes a row-major array, replacing the file as a whole (AtomicFile). \pre the extents multiply
/// to the number of values
template <class T>
void write_npy(const std::filesystem::path& path, std::span<const std::int64_t> extents,
               std::span<const T> values) {
  const auto want = detail::packed_bytes(extents, sizeof(T));
  const auto bytes = std::as_bytes(values);
  if (!want || *want != static_cast<std::int64_t>(bytes.size())) {
    throw std::invalid_argument("write_npy: the extents do not multiply to the number of values");
  }
  const std::string head = npy_header(element_type_of<T>, extents, path.string());
  AtomicFile file(path, static_cast<std::int64_t>(head.size() + bytes.size()));
  file.write(head);
  file.write(bytes);
  file.commit();
}

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE void fortran_to_c(std::span<const std::byte> from, std::span<std::byte> to,
                               std::span<const std::int64_t> extents, std::int64_t item) {
  const auto width = static_cast<std::size_t>(item);
  std::vector<std::int64_t> index(extents.size(), 0);
  std::vector<std::int64_t> stride(extents.size(), 1);
  for (std::size_t d = 1; d < extents.size(); ++d) stride[d] = stride[d - 1] * extents[d - 1];
  std::int64_t source = 0;
  for (std::size_t at = 0; at < to.size(); at += width) {
    std::memcpy(&to[at], &from[static_cast<std::size_t>(source) * width], width);
    for (std::size_t d = extents.size(); d-- > 0;) {
      source += stride[d];
      if (++index[d] < extents[d]) break;
      source -= stride[d] * extents[d];
      index[d] = 0;
    }
  }
}

}  // namespace krama::io::detail

namespace krama::io {

KRAMA_INLINE std::string npy_header(ElementType type, std::span<const std::int64_t> extents,
                                    const std::string& file) {
  if (npy_name(type).empty()) {
    throw FileError({.file = file,
                     .what = "npy has no element type " + std::string(name_of(type)),
                     .hint = "widen it to float32, or write safetensors"});
  }
  std::string dict = "{'descr': '";
  dict += size_of(type) == 1 ? '|' : '<';
  dict += npy_name(type);
  dict += "', 'fortran_order': False, 'shape': (";
  for (std::size_t d = 0; d < extents.size(); ++d) {
    dict += std::to_string(extents[d]) + (d + 1 < extents.size() ? ", " : "");
  }
  dict += extents.size() == 1 ? ",), }" : "), }";

  const bool small = dict.size() + 64 <= 0xffff;
  const std::size_t prelude = small ? 10 : 12;
  while ((prelude + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string head = "\x93NUMPY";
  head += static_cast<char>(small ? 1 : 2);
  head += '\0';
  for (std::size_t i = 0; i < prelude - 8; ++i) {
    head += static_cast<char>((dict.size() >> (8 * i)) & 0xffU);
  }
  return head + dict;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
