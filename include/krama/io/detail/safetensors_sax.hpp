// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/element_type.hpp>
#include <krama/io/error.hpp>
#include <krama/io/tensor_entry.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace krama::io::detail {

/// Takes the events of the JSON parser and accepts only what a safetensors header may hold:
///   { "__metadata__": {string: string...},
///     name: {"dtype": string, "shape": [n...], "data_offsets": [begin, end]}... }
/// No tree is built, so nesting costs nothing, duplicate keys are seen, and memory stays in
/// proportion to the text. The member functions' names and parameters are the parser's.
class SafetensorsSax {
 public:
  using json = nlohmann::json;

  explicit SafetensorsSax(const std::string& file) : file_(file) {}

  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string, std::less<>> metadata;

  bool start_object(std::size_t /*elements*/);

  bool key(std::string& text);

  bool string(std::string& text);

  bool start_array(std::size_t /*elements*/);

  bool number_unsigned(std::uint64_t value);

  bool end_array();

  bool end_object();

  bool number_integer(std::int64_t value) {
    return unexpected("negative number " + std::to_string(value));
  }
  bool number_float(double /*value*/, const std::string& text) {
    return unexpected("number " + in_quotes(text));
  }
  bool null() { return unexpected("null"); }
  bool boolean(bool /*value*/) { return unexpected("a boolean"); }
  bool binary(json::binary_t& /*value*/) { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error);

 private:
  enum class State : std::uint8_t {
    start,
    top,
    top_value,
    metadata,
    metadata_value,
    entry,
    dtype,
    shape,
    shape_items,
    offsets,
    offset_items,
    done
  };

  [[noreturn]] void fail(const std::string& found, const std::string& wanted) const;

  /// A value of a kind that does not belong where it stands.
  bool unexpected(const std::string& found) const;

  const std::string& file_;
  State state_ = State::start;
  std::string key_;
  int have_ = 0;     ///< bits: dtype 1, shape 2, data_offsets 4
  int offsets_ = 0;  ///< data_offsets seen
  bool have_metadata_ = false;
};

}  // namespace krama::io::detail

#if KRAMA_DEFINITIONS

namespace krama::io::detail {

KRAMA_INLINE bool SafetensorsSax::start_object(std::size_t /*elements*/) {
  switch (state_) {
    case State::start:
      state_ = State::top;
      return true;
    case State::top_value:
      if (key_ == "__metadata__") {
        if (have_metadata_) fail("duplicate key \"__metadata__\"", "it once");
        have_metadata_ = true;
        state_ = State::metadata;
        return true;
      }
      tensors.push_back({.name = key_, .type = ElementType::f32, .extents = {}});
      have_ = 0;
      state_ = State::entry;
      return true;
    default:
      return unexpected("an object");
  }
}

KRAMA_INLINE bool SafetensorsSax::key(std::string& text) {
  if (text.find('\0') != std::string::npos) fail("a zero character in a name", "none");
  key_ = std::move(text);
  switch (state_) {
    case State::top:
      state_ = State::top_value;
      return true;
    case State::metadata:
      state_ = State::metadata_value;
      return true;
    default:
      break;
  }
  // Only State::entry is left: objects open nowhere else.
  const int bit = key_ == "dtype" ? 1 : key_ == "shape" ? 2 : key_ == "data_offsets" ? 4 : 0;
  if (bit == 0) fail("unknown key " + in_quotes(key_), "dtype, shape, data_offsets");
  if ((have_ & bit) != 0) fail("duplicate key " + in_quotes(key_), "it once");
  have_ |= bit;
  state_ = bit == 1 ? State::dtype : bit == 2 ? State::shape : State::offsets;
  return true;
}

KRAMA_INLINE bool SafetensorsSax::string(std::string& text) {
  if (state_ == State::dtype) {
    const auto type = from_safetensors_name(text);
    if (!type)
      fail("unknown dtype " + in_quotes(text), "F64, F32, F16, BF16, I64, I32, U8 or the like");
    tensors.back().type = *type;
    state_ = State::entry;
    return true;
  }
  if (state_ == State::metadata_value) {
    if (!metadata.emplace(key_, std::move(text)).second) {
      fail("duplicate key " + in_quotes(key_) + " in __metadata__", "it once");
    }
    state_ = State::metadata;
    return true;
  }
  return unexpected("a string");
}

KRAMA_INLINE bool SafetensorsSax::start_array(std::size_t /*elements*/) {
  if (state_ == State::shape) {
    state_ = State::shape_items;
  } else if (state_ == State::offsets) {
    state_ = State::offset_items;
    offsets_ = 0;
  } else {
    return unexpected("an array");
  }
  return true;
}

KRAMA_INLINE bool SafetensorsSax::number_unsigned(std::uint64_t value) {
  const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto number = static_cast<std::int64_t>(value);
  if (state_ == State::shape_items) {
    if (!fits) fail("extent " + std::to_string(value), "less than 2^63");
    tensors.back().extents.push_back(number);
    return true;
  }
  if (state_ == State::offset_items) {
    if (!fits) fail("offset " + std::to_string(value), "less than 2^63");
    if (offsets_ == 0) tensors.back().begin = number;
    if (offsets_ == 1) tensors.back().end = number;
    if (++offsets_ > 2) fail("more than two data_offsets", "[begin, end]");
    return true;
  }
  return unexpected("a number");
}

KRAMA_INLINE bool SafetensorsSax::end_array() {
  if (state_ == State::offset_items && offsets_ != 2) {
    fail(std::to_string(offsets_) + " data_offsets", "[begin, end]");
  }
  state_ = State::entry;
  return true;
}

KRAMA_INLINE bool SafetensorsSax::end_object() {
  if (state_ == State::entry && have_ != 7) {
    fail("an entry without dtype, shape or data_offsets", "all three");
  }
  state_ = state_ == State::top ? State::done : State::top;
  return true;
}

KRAMA_INLINE bool SafetensorsSax::parse_error(std::size_t position, const std::string& /*token*/,
                                              const nlohmann::detail::exception& error) {
  throw FileError({.file = file_,
                   .what = "bad safetensors header",
                   .found = "no JSON at its byte " + std::to_string(position),
                   .hint = in_quotes(error.what(), 160)});
}

KRAMA_INLINE void SafetensorsSax::fail(const std::string& found, const std::string& wanted) const {
  const bool inside = state_ >= State::entry && state_ < State::done && !tensors.empty();
  throw FileError({.file = file_,
                   .what = "bad safetensors header" +
                           (inside ? ": tensor " + in_quotes(tensors.back().name) : std::string()),
                   .found = found,
                   .wanted = wanted});
}

KRAMA_INLINE bool SafetensorsSax::unexpected(const std::string& found) const {
  switch (state_) {
    case State::start:
      fail(found, "an object");
    case State::top_value:
      fail(found + " for " + in_quotes(key_), "an object");
    case State::metadata_value:
      fail(found + " in __metadata__ for " + in_quotes(key_), "a string");
    case State::dtype:
      fail(found + " for dtype", "a string");
    case State::shape:
      fail(found + " for shape", "an array");
    case State::shape_items:
      fail(found + " in shape", "integers of 0 or more");
    case State::offsets:
      fail(found + " for data_offsets", "[begin, end]");
    case State::offset_items:
      fail(found + " in data_offsets", "integers of 0 or more");
    default:
      fail(found, "something else");
  }
}

}  // namespace krama::io::detail

#endif  // KRAMA_DEFINITIONS
