// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/atomic_file.hpp>
#include <krama/io/detail/bytes.hpp>
#include <krama/io/detail/checksum_keys.hpp>
#include <krama/io/detail/crc32c.hpp>
#include <krama/io/error.hpp>
#include <krama/io/safetensors_header.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krama::io {

/// Writes one safetensors file, replacing the target as a whole (AtomicFile). All names, types and
/// shapes are given first; then the tensors' bytes in the same order, each at once or in pieces;
/// then `commit`. Each tensor and the header get a CRC-32C in the metadata. Memory: one header.
/// Give wider types first if other readers are to find every tensor aligned: the format has no
/// padding.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const std::map<std::string, std::string>& metadata = {},
                    const detail::SysCalls& calls = {});

  /// The next bytes of the file, which belong to `tensor`: the first one that is not complete.
  void write(std::string_view tensor, std::span<const std::byte> bytes);
  template <class T>
  void write(std::string_view tensor, std::span<const T> values) {
    write(tensor, std::as_bytes(values));
  }

  /// Fills in the checksums and puts the file in place.
  void commit();

 private:
  struct Header {
    std::string text;                      ///< length field and JSON
    std::size_t sum_position = 0;          ///< of the header's own sum, in the JSON
    std::vector<std::size_t> tensor_sums;  ///< of each tensor's sum, in `text`
    std::vector<std::int64_t> sizes;       ///< bytes per tensor
    std::int64_t data_bytes = 0;
  };

  static std::string quote_json(const std::string& text, const std::string& file);

  static Header make_header(const std::string& file, const std::vector<TensorSpec>& tensors,
                            const std::map<std::string, std::string>& metadata);

  void finish_tensor();
  void skip_empty();

  Header header_;
  std::vector<TensorSpec> tensors_;
  AtomicFile file_;
  std::size_t current_ = 0;
  std::int64_t done_ = 0;
  detail::Crc32c crc_;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE SafetensorsWriter::SafetensorsWriter(
    const std::filesystem::path& path, std::vector<TensorSpec> tensors,
    const std::map<std::string, std::string>& metadata, const detail::SysCalls& calls)
    : header_(make_header(path.string(), tensors, metadata)),
      tensors_(std::move(tensors)),
      file_(path, static_cast<std::int64_t>(header_.text.size()) + header_.data_bytes, calls) {
  file_.write(header_.text);
  skip_empty();
}

KRAMA_INLINE void SafetensorsWriter::write(std::string_view tensor,
                                           std::span<const std::byte> bytes) {
  if (current_ < tensors_.size() && tensors_[current_].name == tensor && bytes.empty()) return;
  if (current_ == tensors_.size() || tensors_[current_].name != tensor) {
    if (bytes.empty()) return;  // a tensor without elements, passed over already
    throw std::logic_error("SafetensorsWriter: " + file_.name() + ": bytes of " +
                           detail::in_quotes(tensor) + " when the next are of " +
                           (current_ == tensors_.size()
                                ? std::string("none")
                                : detail::in_quotes(tensors_[current_].name)));
  }
  if (static_cast<std::int64_t>(bytes.size()) > header_.sizes[current_] - done_) {
    throw std::logic_error("SafetensorsWriter: " + file_.name() + ": too many bytes for " +
                           detail::in_quotes(tensor));
  }
  file_.write(bytes);
  crc_.add(bytes);
  done_ += static_cast<std::int64_t>(bytes.size());
  if (done_ == header_.sizes[current_]) finish_tensor();
}

KRAMA_INLINE void SafetensorsWriter::commit() {
  if (current_ != tensors_.size()) {
    throw std::logic_error("SafetensorsWriter: " + file_.name() + ": commit before the bytes of " +
                           detail::in_quotes(tensors_[current_].name));
  }
  std::string& text = header_.text;
  const auto json = std::string_view(text).substr(8);
  const std::size_t at = 8 + header_.sum_position;
  text.replace(at, 8, detail::to_hex(detail::header_sum(json, header_.sum_position)));
  file_.rewrite(0, std::as_bytes(std::span(text)));
  file_.commit();
}

KRAMA_INLINE std::string SafetensorsWriter::quote_json(const std::string& text,
                                                       const std::string& file) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw FileError({.file = file,
                     .what = "a name or metadata text that is no UTF-8",
                     .found = detail::in_quotes(text)});
  }
}

KRAMA_INLINE auto SafetensorsWriter::make_header(const std::string& file,
                                                 const std::vector<TensorSpec>& tensors,
                                                 const std::map<std::string, std::string>& metadata)
    -> Header {
  Header h;
  detail::check_names(tensors, file);
  std::string& text = h.text;
  text = std::string(8, '\0') + "{\"__metadata__\":{\"";
  text += std::string(detail::header_sum_key) + "\":\"" + std::string(detail::zero_sum) + '"';
  for (const auto& [key, value] : metadata) {
    if (key.starts_with("krama.crc32c")) {
      throw FileError(
          {.file = file, .what = "metadata key " + detail::in_quotes(key) + " is reserved"});
    }
    text += ',' + quote_json(key, file) + ':' + quote_json(value, file);
  }
  for (const TensorSpec& t : tensors) {
    text += ',' + quote_json(std::string(detail::tensor_sum_prefix) + t.name, file) + ":\"";
    h.tensor_sums.push_back(text.size());
    text += std::string(detail::zero_sum) + '"';
  }
  text += '}';
  for (const TensorSpec& t : tensors) {
    const auto bytes = detail::packed_bytes(t.extents, size_of(t.type));
    const bool negative = std::ranges::any_of(t.extents, [](std::int64_t e) { return e < 0; });
    if (negative || !bytes) {
      throw FileError({.file = file,
                       .what = "tensor " + detail::in_quotes(t.name) + " has an impossible shape",
                       .found = to_text(t.extents)});
    }
    const std::int64_t begin = h.data_bytes;
    h.sizes.push_back(*bytes);
    h.data_bytes += *bytes;
    text += ',' + quote_json(t.name, file) + ":{\"dtype\":\"" +
            std::string(safetensors_name(t.type)) + "\",\"shape\":" + to_text(t.extents) +
            ",\"data_offsets\":" + to_text(std::array{begin, h.data_bytes}) + '}';
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');  // the data start at a multiple of 8
  const std::uint64_t length = text.size() - 8;
  if (length > detail::safetensors_header_limit) {
    throw FileError({.file = file,
                     .what = "too many tensors for one safetensors file",
                     .found = std::to_string(length) + " bytes of header",
                     .wanted = "at most " + std::to_string(detail::safetensors_header_limit)});
  }
  detail::store_le(length, std::as_writable_bytes(std::span(text)).first(8));
  h.sum_position = detail::header_sum_position(std::string_view(text).substr(8));
  // What no reader would take must not be written: names like "__metadata__",
  // NULs.
  (void)parse_safetensors_header(std::string_view(text).substr(8), h.data_bytes, file);
  return h;
}

KRAMA_INLINE void SafetensorsWriter::finish_tensor() {
  header_.text.replace(header_.tensor_sums[current_], 8, detail::to_hex(crc_.value()));
  crc_ = {};
  done_ = 0;
  ++current_;
  skip_empty();
}

KRAMA_INLINE void SafetensorsWriter::skip_empty() {
  while (current_ < tensors_.size() && header_.sizes[current_] == 0) {
    header_.text.replace(header_.tensor_sums[current_], 8, detail::to_hex(crc_.value()));
    ++current_;
  }
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
