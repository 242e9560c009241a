// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace krama::io {

/// Element types that occur in the file formats. More than Krama computes with: a reader must be
/// able to say what a file holds before it refuses it.
enum class ElementType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

namespace detail {
struct ElementTypeRow {
  ElementType type;
  std::int64_t bytes;
  std::string_view safetensors;  ///< the format's name
  std::string_view npy;          ///< kind and size of the descr; empty: the format has none
  std::string_view plain;        ///< for messages
};

inline constexpr std::array<ElementTypeRow, 15> element_types{{
    {ElementType::f64, 8, "F64", "f8", "float64"},
    {ElementType::f32, 4, "F32", "f4", "float32"},
    {ElementType::f16, 2, "F16", "f2", "float16"},
    {ElementType::bf16, 2, "BF16", "", "bfloat16"},
    {ElementType::f8_e4m3, 1, "F8_E4M3", "", "float8_e4m3"},
    {ElementType::f8_e5m2, 1, "F8_E5M2", "", "float8_e5m2"},
    {ElementType::i64, 8, "I64", "i8", "int64"},
    {ElementType::i32, 4, "I32", "i4", "int32"},
    {ElementType::i16, 2, "I16", "i2", "int16"},
    {ElementType::i8, 1, "I8", "i1", "int8"},
    {ElementType::u64, 8, "U64", "u8", "uint64"},
    {ElementType::u32, 4, "U32", "u4", "uint32"},
    {ElementType::u16, 2, "U16", "u2", "uint16"},
    {ElementType::u8, 1, "U8", "u1", "uint8"},
    {ElementType::boolean, 1, "BOOL", "b1", "bool"},
}};

constexpr const ElementTypeRow& row_of(ElementType type) {
  return element_types[static_cast<std::size_t>(type)];
}

/// The table is indexed by the enumerator, so the two must stay in the same order.
static_assert([] {
  for (std::size_t i = 0; i < element_types.size(); ++i) {
    if (static_cast<std::size_t>(element_types[i].type) != i) return false;
  }
  return true;
}());
}  // namespace detail

/// Bytes per element.
constexpr std::int64_t size_of(ElementType type) { return detail::row_of(type).bytes; }
/// The name in messages: "float32".
constexpr std::string_view name_of(ElementType type) { return detail::row_of(type).plain; }
/// The name in a safetensors header: "F32".
constexpr std::string_view safetensors_name(ElementType type) {
  return detail::row_of(type).safetensors;
}
/// Kind and size in an npy descr: "f4"; empty where the format has no such type.
constexpr std::string_view npy_name(ElementType type) { return detail::row_of(type).npy; }

constexpr std::optional<ElementType> from_safetensors_name(std::string_view name) {
  for (const auto& row : detail::element_types) {
    if (row.safetensors == name) return row.type;
  }
  return std::nullopt;
}

constexpr std::optional<ElementType> from_npy_name(std::string_view name) {
  for (const auto& row : detail::element_types) {
    if (!row.npy.empty() && row.npy == name) return row.type;
  }
  return std::nullopt;
}

/// Maps a C++ type to its element type. Specialise it for storage types of your own (a two-byte
/// bfloat16 struct, say): `template <> struct io::ElementTypeOf<my::bf16> { static constexpr
/// auto value = io::ElementType::bf16; };`. Not defined for bool: std::vector<bool> is not memory.
template <class T>
struct ElementTypeOf;

#define KRAMA_IO_ELEMENT_TYPE(cpp_type, enumerator)               \
  template <>                                                     \
  struct ElementTypeOf<cpp_type> {                                \
    static constexpr ElementType value = ElementType::enumerator; \
  }
KRAMA_IO_ELEMENT_TYPE(double, f64);
KRAMA_IO_ELEMENT_TYPE(float, f32);
KRAMA_IO_ELEMENT_TYPE(std::int64_t, i64);
KRAMA_IO_ELEMENT_TYPE(std::int32_t, i32);
KRAMA_IO_ELEMENT_TYPE(std::int16_t, i16);
KRAMA_IO_ELEMENT_TYPE(std::int8_t, i8);
KRAMA_IO_ELEMENT_TYPE(std::uint64_t, u64);
KRAMA_IO_ELEMENT_TYPE(std::uint32_t, u32);
KRAMA_IO_ELEMENT_TYPE(std::uint16_t, u16);
KRAMA_IO_ELEMENT_TYPE(std::uint8_t, u8);
#undef KRAMA_IO_ELEMENT_TYPE

template <class T>
inline constexpr ElementType element_type_of = ElementTypeOf<std::remove_const_t<T>>::value;

}  // namespace krama::io
