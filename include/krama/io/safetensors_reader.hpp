// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/detail/checksum_keys.hpp>
#include <krama/io/detail/crc32c.hpp>
#include <krama/io/element_type.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <krama/io/safetensors_header.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krama::io {

/// What to do about checksums that a file carries: Krama's own files have one per tensor and one
/// over the header, files of others have none and are read without.
enum class Checksums : std::uint8_t { verify, ignore };

/// Reads one safetensors file. The constructor checks the whole header against the file's size;
/// then tensors are read by name, in any order. Throws FileError with file, tensor and reason.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path,
                             Checksums checksums = Checksums::verify);

  [[nodiscard]] const std::string& name() const noexcept { return file_.name(); }
  /// The tensors in the order of their bytes in the file.
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const noexcept { return header_.tensors; }
  /// The file's string map; Krama's checksums are in it too.
  [[nodiscard]] const auto& metadata() const noexcept { return header_.metadata; }

  /// The tensor of that name, or null.
  [[nodiscard]] const TensorEntry* find(std::string_view tensor) const;

  /// The tensor of that name; throws if there is none.
  [[nodiscard]] const TensorEntry& at(std::string_view tensor) const;

  /// Reads all bytes of a tensor and verifies its checksum, if there is one.
  /// \pre out.size() == entry.bytes(), entry is one of this file's
  void read_bytes(const TensorEntry& entry, std::span<std::byte> out) const;

  /// Reads a piece of a tensor, from byte `offset` of it on. Not verified: the sum is over the
  /// whole.
  void read_part(const TensorEntry& entry, std::int64_t offset, std::span<std::byte> out) const;

  /// Reads a tensor of a known type and shape into `out`; neither is converted.
  template <class T>
  void read(std::string_view tensor, std::span<const std::int64_t> extents,
            std::span<T> out) const {
    const TensorEntry& entry = expect_type(tensor, element_type_of<T>);
    if (!std::ranges::equal(entry.extents, extents)) {
      throw FileError({.file = name(),
                       .what = "tensor " + detail::in_quotes(tensor) + " has another shape",
                       .found = to_text(entry.extents),
                       .wanted = to_text(extents)});
    }
    read_bytes(entry, std::as_writable_bytes(out));
  }

  /// Reads a tensor of a known type and whatever shape.
  template <class T>
  [[nodiscard]] std::vector<T> read(std::string_view tensor) const {
    const TensorEntry& entry = expect_type(tensor, element_type_of<T>);
    std::vector<T> values(static_cast<std::size_t>(entry.bytes()) / sizeof(T));
    read_bytes(entry, std::as_writable_bytes(std::span(values)));
    return values;
  }

  /// Throws unless the file has exactly the tensors of these names; lists what is missing and what
  /// is there without being asked for. A loader that skips this leaves weights at random values.
  void expect_exactly(std::span<const std::string> wanted) const;

 private:
  [[nodiscard]] const TensorEntry& expect_type(std::string_view tensor, ElementType type) const;

  /// The sum that the metadata holds under `key`; throws if it is there and no sum.
  [[nodiscard]] std::optional<std::uint32_t> sum_under(const std::string& key) const;
  [[nodiscard]] std::optional<std::uint32_t> stored_sum(const std::string& tensor) const {
    return sum_under(std::string(detail::tensor_sum_prefix) + tensor);
  }

  void verify_header(std::string_view json) const;

  InputFile file_;
  Checksums checksums_;
  std::int64_t data_offset_ = 0;
  SafetensorsHeader header_;
  std::vector<std::size_t> by_name_;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE SafetensorsReader::SafetensorsReader(const std::filesystem::path& path,
                                                  Checksums checksums)
    : file_(path), checksums_(checksums) {
  file_.need(8, "the safetensors header length");
  file_.refuse_gzip();
  std::array<std::byte, 8> prelude{};
  file_.read_at(0, prelude, "the safetensors header length");
  const std::int64_t length = detail::check_safetensors_length(
      detail::load_le<std::uint64_t>(prelude), file_.size(), file_.name());
  std::string json(static_cast<std::size_t>(length), ' ');
  file_.read_at(8, std::as_writable_bytes(std::span(json)), "the safetensors header");
  data_offset_ = 8 + length;
  header_ = parse_safetensors_header(json, file_.size() - data_offset_, file_.name());
  if (checksums_ == Checksums::verify) verify_header(json);
  by_name_.resize(header_.tensors.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::sort(by_name_, {}, [this](std::size_t i) -> const std::string& {
    return header_.tensors[i].name;
  });
}

KRAMA_INLINE const TensorEntry* SafetensorsReader::find(std::string_view tensor) const {
  const auto name_at = [this](std::size_t i) -> std::string_view {
    return header_.tensors[i].name;
  };
  const auto it = std::ranges::lower_bound(by_name_, tensor, {}, name_at);
  if (it == by_name_.end() || name_at(*it) != tensor) return nullptr;
  return &header_.tensors[*it];
}

KRAMA_INLINE const TensorEntry& SafetensorsReader::at(std::string_view tensor) const {
  const TensorEntry* entry = find(tensor);
  if (entry == nullptr) {
    throw FileError({.file = name(),
                     .what = "no tensor " + detail::in_quotes(tensor),
                     .found = std::to_string(header_.tensors.size()) + " others"});
  }
  return *entry;
}

KRAMA_INLINE void SafetensorsReader::read_bytes(const TensorEntry& entry,
                                                std::span<std::byte> out) const {
  if (static_cast<std::int64_t>(out.size()) != entry.bytes()) {
    throw FileError(
        {.file = name(),
         .what = "tensor " + detail::in_quotes(entry.name) + " does not fit its destination",
         .found = std::to_string(entry.bytes()) + " bytes",
         .wanted = std::to_string(out.size())});
  }
  file_.read_at(data_offset_ + entry.begin, out, "tensor " + detail::in_quotes(entry.name));
  if (checksums_ == Checksums::ignore) return;
  const auto sum = stored_sum(entry.name);
  const std::uint32_t actual = sum ? detail::crc32c(out) : 0;
  if (sum && actual != *sum) {
    throw FileError({.file = name(),
                     .what = "tensor " + detail::in_quotes(entry.name) + ": checksum mismatch",
                     .found = "CRC-32C " + detail::to_hex(actual),
                     .wanted = detail::to_hex(*sum),
                     .hint = "the file was damaged or changed after it was written"});
  }
}

KRAMA_INLINE void SafetensorsReader::read_part(const TensorEntry& entry, std::int64_t offset,
                                               std::span<std::byte> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (offset < 0 || offset > entry.bytes() || count > entry.bytes() - offset) {
    throw FileError({.file = name(),
                     .what = "tensor " + detail::in_quotes(entry.name) + ": piece out of range",
                     .found = std::to_string(count) + " bytes at " + std::to_string(offset),
                     .wanted = "within " + std::to_string(entry.bytes())});
  }
  file_.read_at(data_offset_ + entry.begin + offset, out,
                "tensor " + detail::in_quotes(entry.name));
}

KRAMA_INLINE void SafetensorsReader::expect_exactly(std::span<const std::string> wanted) const {
  std::string missing;
  for (const std::string& n : wanted) {
    if (find(n) == nullptr) missing += (missing.empty() ? "" : ", ") + detail::in_quotes(n);
  }
  std::vector<std::string_view> sorted(wanted.begin(), wanted.end());
  std::ranges::sort(sorted);
  std::string unexpected;
  for (const TensorEntry& t : header_.tensors) {
    if (!std::ranges::binary_search(sorted, std::string_view(t.name))) {
      unexpected += (unexpected.empty() ? "" : ", ") + detail::in_quotes(t.name);
    }
  }
  if (missing.empty() && unexpected.empty()) return;
  throw FileError({.file = name(),
                   .what = "holds other tensors than the model",
                   .found = "missing: " + (missing.empty() ? "none" : missing) +
                            "; unexpected: " + (unexpected.empty() ? "none" : unexpected)});
}

KRAMA_INLINE const TensorEntry& SafetensorsReader::expect_type(std::string_view tensor,
                                                               ElementType type) const {
  const TensorEntry& entry = at(tensor);
  if (entry.type != type) {
    throw FileError({.file = name(),
                     .what = "tensor " + detail::in_quotes(tensor) + " has another element type",
                     .found = std::string(name_of(entry.type)),
                     .wanted = std::string(name_of(type))});
  }
  return entry;
}

KRAMA_INLINE std::optional<std::uint32_t> SafetensorsReader::sum_under(
    const std::string& key) const {
  const auto it = header_.metadata.find(key);
  if (it == header_.metadata.end()) return std::nullopt;
  const auto sum = detail::from_hex(it->second);
  if (!sum) {
    throw FileError({.file = name(),
                     .what = "bad checksum under " + detail::in_quotes(key),
                     .found = detail::in_quotes(it->second),
                     .wanted = "eight hexadecimal digits"});
  }
  return sum;
}

KRAMA_INLINE void SafetensorsReader::verify_header(std::string_view json) const {
  const auto sum = sum_under(std::string(detail::header_sum_key));
  if (!sum) {
    // A flipped bit in the key itself must not switch the check off.
    const auto first = header_.metadata.lower_bound(detail::tensor_sum_prefix);
    if (first == header_.metadata.end() || !first->first.starts_with(detail::tensor_sum_prefix)) {
      return;
    }
    throw FileError({.file = name(),
                     .what = "has checksums of tensors but none of its header",
                     .hint = "the header was damaged or changed after it was written"});
  }
  const std::size_t position = detail::header_sum_position(json);
  if (position != std::string_view::npos && detail::header_sum(json, position) == *sum) return;
  throw FileError({.file = name(),
                   .what = "header checksum mismatch",
                   .wanted = "CRC-32C " + detail::to_hex(*sum),
                   .hint = "the header was damaged or changed after it was written"});
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
