// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/idx.hpp>
#include <krama/io/labelled_images.hpp>
//
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <numeric>
#include <string>

#include "io/io_test.hpp"

using namespace io_test;
using krama::io::ElementType;
using krama::io::read_idx;
using krama::io::read_labelled_images;
using krama::io::read_mnist;

namespace {

std::string idx(int type, std::initializer_list<int> extents, const std::string& data) {
  std::string out = bytes_of({0, 0, type, static_cast<int>(extents.size())});
  for (const int e : extents) out += bytes_of({e >> 24, e >> 16, e >> 8, e});
  return out + data;
}

std::string why(const fs::path& path) {
  return message_of([&] { (void)read_idx(path); });
}

}  // namespace

TEST_CASE("idx: every type, big-endian in the file", "[io]") {
  const TempFolder folder;
  write_file(folder / "i16", idx(0x0b, {2}, bytes_of({1, 2, 0xff, 0xfe})));
  const auto i16 = read_idx(folder / "i16");
  CHECK(i16.type == ElementType::i16);
  std::int16_t v16[2];
  std::memcpy(v16, i16.data.data(), 4);
  CHECK(v16[0] == 258);
  CHECK(v16[1] == -2);
  write_file(folder / "f32", idx(0x0d, {1, 1}, bytes_of({0x3f, 0xc0, 0, 0})));
  const auto f32 = read_idx(folder / "f32");
  float v32 = 0;
  std::memcpy(&v32, f32.data.data(), 4);
  CHECK(v32 == 1.5F);
  CHECK(f32.extents == std::vector<std::int64_t>{1, 1});
  write_file(folder / "f64", idx(0x0e, {1}, bytes_of({0x3f, 0xf8, 0, 0, 0, 0, 0, 0})));
  double v64 = 0;
  std::memcpy(&v64, read_idx(folder / "f64").data.data(), 8);
  CHECK(v64 == 1.5);
  write_file(folder / "none", idx(8, {0, 28, 28}, ""));
  CHECK(read_idx(folder / "none").data.empty());
}

TEST_CASE("D06: a file cut at any byte says truncated, with figures", "[io]") {
  const TempFolder folder;
  const std::string whole = idx(8, {2, 2, 2}, "12345678");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(folder / "f", whole.substr(0, size));
    const std::string message = why(folder / "f");
    INFO(size << ": " << message);
    if (size == 0) {
      CHECK(has(message, "the file is empty"));
    } else {
      const std::string need = size < 4 ? "4" : size < 16 ? "16" : "24";
      CHECK(has(message, "truncated: need " + need + " bytes"));
      CHECK(has(message, "have " + std::to_string(size)));
    }
  }
  write_file(folder / "f", whole);
  CHECK(why(folder / "f").empty());
}

TEST_CASE("D06: wrong kinds of idx files", "[io]") {
  const TempFolder folder;
  const struct {
    std::string content;
    std::string message;
  } table[] = {
      {bytes_of({0x1f, 0x8b, 8, 8}) + "xxxxxxxxxxxx", "is gzip-compressed"},
      {bytes_of({3, 8, 0, 0}) + std::string(20, 'x'), "is not an idx file"},  // little-endian
      {bytes_of({0, 0, 7, 1, 0, 0, 0, 1, 5}), "is not an idx file: found magic number 1793"},
      {idx(8, {2}, "123"), "has bytes after its data: found 11 bytes, wanted 10"},
      {idx(8, {-1, -1, -1, -1}, ""), "multiply to more than 2^63"},
      {idx(8, {-1, -1, 0, -1}, ""), "multiply to more than 2^63"},
      {idx(8, {-1, 2}, ""), "truncated: need 8589934602 bytes"},
  };
  for (const auto& row : table) {
    write_file(folder / "f", row.content);
    INFO(row.message);
    CHECK(has(why(folder / "f"), row.message));
  }
}

TEST_CASE("D06: images and labels", "[io]") {
  const TempFolder folder;
  write_file(folder / "i", idx(8, {2, 1, 3}, "abcdef"));
  write_file(folder / "l", idx(8, {2}, bytes_of({0, 9})));
  const auto data = read_labelled_images(folder / "i", folder / "l");
  CHECK(data.count == 2);
  CHECK(data.rows == 1);
  CHECK(data.cols == 3);
  CHECK(data.pixels[4] == 'e');
  CHECK(data.labels[1] == 9);
  write_file(folder / "l3", idx(8, {3}, bytes_of({0, 9, 1})));
  const auto differ = message_of([&] { (void)read_labelled_images(folder / "i", folder / "l3"); });
  CHECK(has(differ, "the counts of images and labels differ: found 3 labels, wanted 2"));
  const auto swapped = message_of([&] { (void)read_labelled_images(folder / "l", folder / "i"); });
  CHECK(has(swapped, "not one of images: found uint8 with 1 dimensions"));
}

TEST_CASE("D07: a label out of range is an error that names its sample", "[io]") {
  const TempFolder folder;
  write_file(folder / "i", idx(8, {3, 1, 1}, "abc"));
  for (const int bad : {10, 255}) {
    write_file(folder / "l", idx(8, {3}, bytes_of({9, bad, 0})));
    const auto message =
        message_of([&] { (void)read_labelled_images(folder / "i", folder / "l"); });
    CHECK(has(message, "label out of range at sample 1: found " + std::to_string(bad)));
    CHECK(has(message, "wanted 0 to 9"));
    CHECK(has(message, (folder / "l").string()));
  }
  CHECK(read_labelled_images(folder / "i", folder / "l", 256).count == 3);
}

TEST_CASE("D06: both spellings of the names", "[io]") {
  const TempFolder folder;
  const auto message = [&] {
    return message_of([&] { (void)read_mnist(folder.path(), "train"); });
  };
  CHECK(has(message(), "train-images-idx3-ubyte: no such file, nor train-images.idx3-ubyte"));
  write_file(folder / "train-images-idx3-ubyte.gz", "");
  CHECK(has(message(), "run gunzip on it first"));
  write_file(folder / "train-images.idx3-ubyte", idx(8, {1, 1, 1}, "a"));
  CHECK(has(message(), "train-labels-idx1-ubyte: no such file"));
  write_file(folder / "train-labels-idx1-ubyte", idx(8, {1}, bytes_of({3})));
  CHECK(read_mnist(folder.path(), "train").labels[0] == 3);
}

TEST_CASE("D06: the MNIST test set as it is handed out", "[io]") {
  const auto images = data_folder() / "t10k-images-idx3-ubyte.gz";
  const auto labels = data_folder() / "t10k-labels-idx1-ubyte.gz";
  if (!fs::exists(images) || !fs::exists(labels)) SKIP("no " << images.string());
  CHECK(has(why(images), "is gzip-compressed"));
  const TempFolder folder;
  const auto unpack = [&](const fs::path& from, const std::string& to) {
    const std::string command =
        "gzip -dc '" + from.string() + "' > '" + (folder / to).string() + "'";
    return std::system(command.c_str()) == 0;
  };
  if (!unpack(images, "t10k-images-idx3-ubyte") || !unpack(labels, "t10k-labels.idx1-ubyte")) {
    SKIP("no gzip");
  }
  const auto data = read_mnist(folder.path(), "t10k");
  CHECK(data.count == 10'000);
  CHECK(data.rows == 28);
  CHECK(data.cols == 28);
  CHECK(data.labels[0] == 7);  // the first test image is a seven
  CHECK(std::accumulate(data.labels.begin(), data.labels.end(), 0) == 44'434);
  CHECK(data.pixels[0] == 0);
}
