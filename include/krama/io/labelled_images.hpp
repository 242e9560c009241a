// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/element_type.hpp>
#include <krama/io/error.hpp>
#include <krama/io/idx.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace krama::io {

/// Grey images with one label each, as in MNIST. `pixels` is (count, rows, cols), row-major, 0 to
/// 255.
struct LabelledImages {
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
};

/// Throws FileError, naming the first bad sample, unless 0 <= label < classes for all.
void check_labels(std::span<const std::uint8_t> labels, std::int64_t classes,
                  const std::string& file);

namespace detail {
/// Reads an idx file of bytes with the wanted number of dimensions.
[[nodiscard]] IdxArray read_idx_bytes(const std::filesystem::path& path, std::size_t rank,
                                      const std::string& contents);

[[nodiscard]] std::vector<std::uint8_t> as_u8(std::span<const std::byte> bytes);

/// The file of a data set's part in one of its two spellings: `train-images-idx3-ubyte` (as
/// published) or `train-images.idx3-ubyte` (as some archives unpack it).
[[nodiscard]] std::filesystem::path find_idx(const std::filesystem::path& folder,
                                             const std::string& stem, const std::string& suffix);
}  // namespace detail

/// Reads images and their labels. Throws FileError as `read_idx` does, and if the files hold
/// something else, if their counts differ, or if a label is not below `classes`.
[[nodiscard]] LabelledImages read_labelled_images(const std::filesystem::path& images_file,
                                                  const std::filesystem::path& labels_file,
                                                  std::int64_t classes = 10);

/// Reads a part of a data set laid out as MNIST is: `<part>-images-idx3-ubyte` and
/// `<part>-labels-idx1-ubyte` in `folder`, in either spelling. `part` is "train" or "t10k".
[[nodiscard]] LabelledImages read_mnist(const std::filesystem::path& folder, std::string_view part,
                                        std::int64_t classes = 10);

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE void check_labels(std::span<const std::uint8_t> labels, std::int64_t classes,
                               const std::string& file) {
  const auto bad = std::ranges::find_if(labels, [=](std::uint8_t l) { return l >= classes; });
  if (bad == labels.end()) return;
  throw FileError({.file = file,
                   .what = "label out of range at sample " + std::to_string(bad - labels.begin()),
                   .found = std::to_string(*bad),
                   .wanted = "0 to " + std::to_string(classes - 1)});
}

}  // namespace krama::io

namespace krama::io::detail {

KRAMA_INLINE IdxArray read_idx_bytes(const std::filesystem::path& path, std::size_t rank,
                                     const std::string& contents) {
  IdxArray array = read_idx(path);
  if (array.type != ElementType::u8 || array.extents.size() != rank) {
    throw FileError({.file = array.file,
                     .what = "is an idx file, but not one of " + contents,
                     .found = std::string(name_of(array.type)) + " with " +
                              std::to_string(array.extents.size()) + " dimensions",
                     .wanted = "uint8 with " + std::to_string(rank)});
  }
  return array;
}

KRAMA_INLINE std::vector<std::uint8_t> as_u8(std::span<const std::byte> bytes) {
  std::vector<std::uint8_t> out(bytes.size());
  std::ranges::transform(bytes, out.begin(),
                         [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return out;
}

KRAMA_INLINE std::filesystem::path find_idx(const std::filesystem::path& folder,
                                            const std::string& stem, const std::string& suffix) {
  const std::array names{stem + "-" + suffix, stem + "." + suffix};
  std::error_code ignored;
  for (const auto& name : names) {
    if (std::filesystem::exists(folder / name, ignored)) return folder / name;
  }
  std::string hint = "is the folder right?";
  for (const auto& name : names) {
    if (std::filesystem::exists(folder / (name + ".gz"), ignored)) {
      hint = name + ".gz is there, gzip-compressed: run gunzip on it first";
    }
  }
  throw FileError({.file = (folder / names[0]).string(),
                   .what = "no such file, nor " + names[1],
                   .hint = hint});
}

}  // namespace krama::io::detail

namespace krama::io {

KRAMA_INLINE LabelledImages read_labelled_images(const std::filesystem::path& images_file,
                                                 const std::filesystem::path& labels_file,
                                                 std::int64_t classes) {
  const IdxArray images = detail::read_idx_bytes(images_file, 3, "images");
  const IdxArray labels = detail::read_idx_bytes(labels_file, 1, "labels");
  if (images.extents[0] != labels.extents[0]) {
    throw FileError(
        {.file = labels.file,
         .what = "the counts of images and labels differ",
         .found = std::to_string(labels.extents[0]) + " labels",
         .wanted = std::to_string(images.extents[0]) + " as there are images in " + images.file});
  }
  LabelledImages out{.count = images.extents[0],
                     .rows = images.extents[1],
                     .cols = images.extents[2],
                     .pixels = detail::as_u8(images.data),
                     .labels = detail::as_u8(labels.data)};
  check_labels(out.labels, classes, labels.file);
  return out;
}

KRAMA_INLINE LabelledImages read_mnist(const std::filesystem::path& folder, std::string_view part,
                                       std::int64_t classes) {
  const std::string stem(part);
  // One after the other: as arguments the compiler may look for the labels first.
  const auto images = detail::find_idx(folder, stem + "-images", "idx3-ubyte");
  const auto labels = detail::find_idx(folder, stem + "-labels", "idx1-ubyte");
  return read_labelled_images(images, labels, classes);
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
