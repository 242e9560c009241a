// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace krama::io {

/// A text as bytes: the vocabulary of a byte-level model is 0 to 255, whatever the encoding.
struct Text {
  std::string file;
  std::vector<std::uint8_t> bytes;
};

/// Two parts of a `Text`, in its order. Refers to the text and must not outlive it.
struct TextSplit {
  std::span<const std::uint8_t> train;
  std::span<const std::uint8_t> held_out;
};

/// Reads a text. Throws FileError if it is missing, a folder, empty or gzip-compressed.
[[nodiscard]] Text read_text(const std::filesystem::path& path);

/// Holds out the last `fraction` of the text (rounded down to bytes), the part that no training
/// sees. Throws FileError if the fraction is not in [0, 1), or if it is positive and nothing would
/// be held out.
[[nodiscard]] TextSplit split(const Text& text, double fraction);
TextSplit split(Text&&, double) = delete;  // the parts would refer to a text that is gone

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE Text read_text(const std::filesystem::path& path) {
  const InputFile file(path);
  file.need(1, "text");
  file.refuse_gzip();
  Text text{.file = file.name(), .bytes = {}};
  text.bytes.resize(static_cast<std::size_t>(file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(text.bytes)), "text");
  return text;
}

KRAMA_INLINE TextSplit split(const Text& text, double fraction) {
  if (!(fraction >= 0.0 && fraction < 1.0)) {
    throw FileError({.file = text.file,
                     .what = "bad hold-out fraction",
                     .found = std::to_string(fraction),
                     .wanted = "0 <= fraction < 1"});
  }
  const std::span<const std::uint8_t> all(text.bytes);
  const auto held =
      static_cast<std::size_t>(std::floor(static_cast<double>(all.size()) * fraction));
  if (held == 0 && fraction > 0.0) {
    throw FileError({.file = text.file,
                     .what = "too short to hold out a part",
                     .found = std::to_string(all.size()) + " bytes",
                     .wanted = "at least one byte in the last " + std::to_string(fraction)});
  }
  return {.train = all.first(all.size() - held), .held_out = all.last(held)};
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
