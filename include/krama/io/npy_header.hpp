// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/detail/bytes.hpp>
#include <krama/io/element_type.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krama::io {

/// What the header of an npy file says.
struct NpyHeader {
  ElementType type = ElementType::f32;
  bool swapped = false;        ///< the file has the other byte order
  bool fortran_order = false;  ///< first index fastest
  std::vector<std::int64_t> extents;
  std::int64_t data_offset = 0;
  std::int64_t data_bytes = 0;
  std::string descr;  ///< as in the file, for messages
};

namespace detail {

/// Reads the Python literal of an npy header, `{'descr': '<f4', 'fortran_order': False, 'shape':
/// (2,)}`: that and nothing more of Python. `fail` throws.
class NpyDictParser {
 public:
  NpyDictParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void parse(NpyHeader& header);

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw FileError({.file = file_, .what = "bad npy header", .found = why, .hint = position()});
  }
  [[nodiscard]] std::string position() const {
    return "at character " + std::to_string(pos_) + " of " + in_quotes(text_, 200);
  }

  char peek();
  bool take(char c);
  void expect(char c) {
    if (!take(c)) fail(std::string("no '") + c + "' where one belongs");
  }
  bool take_word(std::string_view word);

  std::string string();
  std::string descr();
  bool boolean();
  std::int64_t integer();
  std::vector<std::int64_t> shape();

  std::string_view text_;
  const std::string& file_;
  std::size_t pos_ = 0;
};

/// Type and byte order of a descr such as "<f4", ">i8" or "|u1".
void parse_npy_descr(NpyHeader& header, const std::string& file);

inline constexpr std::int64_t npy_header_limit = 1'000'000;

/// Bytes before the dict: magic, version, length field; and the offset of the data.
struct NpyPrelude {
  std::int64_t dict_offset = 0;
  std::int64_t data_offset = 0;
};

/// Parses magic, version and header length out of the first (up to) 12 bytes.
[[nodiscard]] NpyPrelude parse_npy_prelude(std::span<const std::byte> head, std::int64_t file_bytes,
                                           const std::string& file);
}  // namespace detail

/// Parses and checks an npy header (format versions 1 to 3). `head`: the file from its start to the
/// end of the header at least. `file_bytes`: the file's size, which must fit. Touches no file.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> head, std::int64_t file_bytes,
                                         const std::string& file);

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE void NpyDictParser::parse(NpyHeader& header) {
  bool have_descr = false;
  bool have_order = false;
  bool have_shape = false;
  expect('{');
  while (!take('}')) {
    const std::string key = string();
    expect(':');
    bool& have = key == "descr" ? have_descr : key == "fortran_order" ? have_order : have_shape;
    if (&have == &have_shape && key != "shape") fail("unknown key " + in_quotes(key));
    if (have) fail("key " + in_quotes(key) + " twice");
    have = true;
    if (key == "descr") header.descr = descr();
    if (key == "fortran_order") header.fortran_order = boolean();
    if (key == "shape") header.extents = shape();
    if (!take(',')) {
      expect('}');
      break;
    }
  }
  if (peek() != '\0') fail("text after the closing brace");
  if (!have_descr) fail("key 'descr' is missing");
  if (!have_order) fail("key 'fortran_order' is missing");
  if (!have_shape) fail("key 'shape' is missing");
}

KRAMA_INLINE char NpyDictParser::peek() {
  const std::string_view blank = " \t\n\r";
  while (pos_ < text_.size() && blank.find(text_[pos_]) != std::string_view::npos) ++pos_;
  if (pos_ == text_.size()) return '\0';
  if (text_[pos_] == '\0') fail("a zero byte");
  return text_[pos_];
}

KRAMA_INLINE bool NpyDictParser::take(char c) {
  if (peek() != c) return false;
  ++pos_;
  return true;
}

KRAMA_INLINE bool NpyDictParser::take_word(std::string_view word) {
  peek();
  if (text_.substr(pos_, word.size()) != word) return false;
  pos_ += word.size();
  return true;
}

KRAMA_INLINE std::string NpyDictParser::string() {
  const char quote = peek();
  if (quote != '\'' && quote != '"') fail("no string where one belongs");
  const std::size_t end = text_.find(quote, ++pos_);
  if (end == std::string_view::npos) fail("a string without end");
  std::string out(text_.substr(pos_, end - pos_));
  if (out.find('\\') != std::string::npos) fail("an escape sequence");
  pos_ = end + 1;
  return out;
}

KRAMA_INLINE std::string NpyDictParser::descr() {
  if (peek() == '[') {
    throw FileError({.file = file_,
                     .what = "holds a structured array",
                     .wanted = "plain numbers",
                     .hint = "save the fields one by one"});
  }
  return string();
}

KRAMA_INLINE bool NpyDictParser::boolean() {
  if (take_word("True")) return true;
  if (take_word("False")) return false;
  fail("neither True nor False");
}

KRAMA_INLINE std::int64_t NpyDictParser::integer() {
  if (peek() == '-') fail("a negative extent");
  if (std::isdigit(static_cast<unsigned char>(peek())) == 0) fail("no number where one belongs");
  std::int64_t value = 0;
  for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
    const std::int64_t digit = text_[pos_] - '0';
    if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10) fail("too large a number");
    value = value * 10 + digit;
  }
  take('L');  // Python 2 wrote long integers so
  return value;
}

KRAMA_INLINE std::vector<std::int64_t> NpyDictParser::shape() {
  std::vector<std::int64_t> extents;
  expect('(');
  while (!take(')')) {
    extents.push_back(integer());
    if (take(',')) continue;
    if (extents.size() == 1 && peek() == ')') fail("a number in brackets where a tuple belongs");
    expect(')');
    break;
  }
  return extents;
}

KRAMA_INLINE void parse_npy_descr(NpyHeader& header, const std::string& file) {
  const std::string& descr = header.descr;
  const char order = descr.empty() ? '\0' : descr[0];
  const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string kind = has_order ? descr.substr(1) : descr;
  const auto type = from_npy_name(kind);
  if (!type) {
    std::string hint = "convert it with numpy's astype";
    if (kind.starts_with('O')) hint = "object arrays are Python pickles, which can run code";
    if (kind == "V2") hint = "a bfloat16 array? Save it as float32, npy has no bfloat16";
    throw FileError({.file = file,
                     .what = "holds an element type that is not supported",
                     .found = in_quotes(descr),
                     .wanted = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1",
                     .hint = hint});
  }
  if (order == '|' && size_of(*type) > 1) {
    throw FileError({.file = file,
                     .what = "bad npy header",
                     .found = "descr " + in_quotes(descr) + " without a byte order"});
  }
  header.type = *type;
  header.swapped = order == '>' && size_of(*type) > 1;
}

KRAMA_INLINE NpyPrelude parse_npy_prelude(std::span<const std::byte> head, std::int64_t file_bytes,
                                          const std::string& file) {
  static constexpr std::string_view magic = "\x93NUMPY";
  const std::size_t overlap = std::min(head.size(), magic.size());
  const std::string_view start(reinterpret_cast<const char*>(head.data()), overlap);
  if (start != magic.substr(0, overlap)) {
    throw FileError({.file = file,
                     .what = "is not an npy file",
                     .found = in_quotes(start) + " at its start",
                     .wanted = "\\x93NUMPY",
                     .hint = start.starts_with("PK") ? "an npz archive? unzip it first" : ""});
  }
  if (head.size() < 10) throw InputFile::truncated(file, 10, file_bytes, "the npy prelude");
  const int major = std::to_integer<int>(head[6]);
  if (major < 1 || major > 3) {
    throw FileError({.file = file,
                     .what = "unknown npy version",
                     .found = std::to_string(major),
                     .wanted = "1, 2 or 3"});
  }
  NpyPrelude prelude{.dict_offset = major == 1 ? 10 : 12};
  if (static_cast<std::int64_t>(head.size()) < prelude.dict_offset) {
    throw InputFile::truncated(file, prelude.dict_offset, file_bytes, "the npy prelude");
  }
  const std::int64_t length = major == 1 ? std::int64_t{load_le<std::uint16_t>(head.subspan(8))}
                                         : std::int64_t{load_le<std::uint32_t>(head.subspan(8))};
  if (length > npy_header_limit) {
    throw FileError({.file = file,
                     .what = "bad npy header",
                     .found = "a length of " + std::to_string(length) + " bytes",
                     .wanted = "at most " + std::to_string(npy_header_limit)});
  }
  prelude.data_offset = prelude.dict_offset + length;
  if (prelude.data_offset > file_bytes) {
    throw InputFile::truncated(file, prelude.data_offset, file_bytes, "the npy header");
  }
  return prelude;
}

}  // namespace krama::io::detail

namespace krama::io {

KRAMA_INLINE NpyHeader parse_npy_header(std::span<const std::byte> head, std::int64_t file_bytes,
                                        const std::string& file) {
  const auto prelude = detail::parse_npy_prelude(head, file_bytes, file);
  if (static_cast<std::int64_t>(head.size()) < prelude.data_offset) {
    throw InputFile::truncated(file, prelude.data_offset, file_bytes, "the npy header");
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + prelude.dict_offset,
                              static_cast<std::size_t>(prelude.data_offset - prelude.dict_offset));
  NpyHeader header;
  header.data_offset = prelude.data_offset;
  detail::NpyDictParser(text, file).parse(header);
  detail::parse_npy_descr(header, file);
  const auto bytes = detail::packed_bytes(header.extents, size_of(header.type));
  if (!bytes || *bytes > std::numeric_limits<std::int64_t>::max() - header.data_offset) {
    throw FileError({.file = file, .what = "the shape multiplies to more than 2^63 bytes"});
  }
  header.data_bytes = *bytes;
  const std::int64_t want = header.data_offset + header.data_bytes;
  if (file_bytes < want) throw InputFile::truncated(file, want, file_bytes, "header and data");
  if (file_bytes > want) {
    throw FileError({.file = file,
                     .what = "has bytes after its array",
                     .found = std::to_string(file_bytes) + " bytes",
                     .wanted = std::to_string(want) + " by its header",
                     .hint = "several arrays in one file are not supported"});
  }
  return header;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
