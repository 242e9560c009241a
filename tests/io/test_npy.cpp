// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/npy.hpp>
//
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "io/io_test.hpp"

using namespace io_test;
using krama::io::read_npy;
using krama::io::write_npy;

namespace {

/// A file of version `major` with the dict as given, padded to `align` as numpy does.
std::string npy(const std::string& dict, const std::string& data, int major = 1,
                std::size_t align = 64) {
  std::string text = dict;
  const std::size_t prelude = major == 1 ? 10 : 12;
  while ((prelude + text.size() + 1) % align != 0) text += ' ';
  text += '\n';
  std::string out = "\x93NUMPY" + bytes_of({major, 0});
  for (std::size_t i = 0; i < prelude - 8; ++i) {
    out += static_cast<char>((text.size() >> (8 * i)) & 0xffU);
  }
  return out + text + data;
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

template <class T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T = float>
std::string why(const fs::path& path) {
  return message_of([&] { (void)read_npy<T>(path); });
}

}  // namespace

TEMPLATE_TEST_CASE("npy: round trip", "[io]", double, float, std::int64_t, std::int32_t,
                   std::int16_t, std::int8_t, std::uint64_t, std::uint32_t, std::uint16_t,
                   std::uint8_t) {
  const TempFolder folder;
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{}, {5}, {0, 4}, {2, 3, 4}}) {
    std::vector<TestType> values(static_cast<std::size_t>(
        std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>())));
    std::iota(values.begin(), values.end(), TestType{3});
    write_npy<TestType>(folder / "f", extents, values);
    const auto back = read_npy<TestType>(folder / "f");
    CHECK(back.extents == extents);
    CHECK(back.values == values);
  }
}

TEST_CASE("D05: the bytes written are those of numpy, data at a multiple of 64", "[io]") {
  const TempFolder folder;
  const std::vector<std::int64_t> extents{2, 3};
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  write_npy<float>(folder / "f", extents, values);
  const std::string file = read_file(folder / "f");
  CHECK(file == npy(dict("<f4", "(2, 3)"), raw(values)));
  CHECK((file.size() - 24) % 64 == 0);
  CHECK(krama::io::npy_header(krama::io::ElementType::u8, std::vector<std::int64_t>{7}, "f")
            .find("{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }") == 10);
  // A header that is too long for version 1.
  const std::vector<std::int64_t> many(30'000, 1);
  write_npy<float>(folder / "v2", many, std::vector<float>{8});
  CHECK(read_file(folder / "v2")[6] == 2);
  CHECK((read_file(folder / "v2").size() - 4) % 64 == 0);
  CHECK(read_npy<float>(folder / "v2").extents == many);
  CHECK(has(message_of([] { (void)krama::io::npy_header(krama::io::ElementType::bf16, {}, "f"); }),
            "npy has no element type bfloat16"));
  CHECK_THROWS_AS(write_npy<float>(folder / "f", many, values), std::invalid_argument);
}

TEST_CASE("D05: numpy itself reads it", "[io]") {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) SKIP("no numpy");
  const TempFolder folder;
  write_npy<double>(folder / "f.npy", std::vector<std::int64_t>{2, 2},
                    std::vector<double>{1.5, 2, 3, 4});
  const std::string command =
      "python3 -c 'import numpy,sys; a=numpy.load(sys.argv[1]); "
      "assert a.shape==(2,2) and a[0,0]==1.5 and a[1,0]==3; "
      "numpy.save(sys.argv[1], numpy.asfortranarray(a.astype(\">i4\")))' ";
  REQUIRE(std::system((command + (folder / "f.npy").string()).c_str()) == 0);
  CHECK(read_npy<std::int32_t>(folder / "f.npy").values == std::vector<std::int32_t>{1, 2, 3, 4});
}

TEST_CASE("npy: versions, alignments and spellings of the header", "[io]") {
  const TempFolder folder;
  const std::string data = raw<float>({1, 2, 3});
  for (const std::string& content :
       {npy(dict("<f4", "(3,)"), data, 1), npy(dict("<f4", "(3,)"), data, 2),
        npy(dict("<f4", "(3,)"), data, 3), npy(dict("<f4", "(3,)"), data, 1, 16),
        npy(dict("<f4", "(3,)"), data, 1, 1),
        npy("{ \"shape\" :(3L,),'descr':'<f4','fortran_order':False}", data)}) {
    write_file(folder / "f", content);
    INFO(content);
    CHECK(read_npy<float>(folder / "f").values == std::vector<float>{1, 2, 3});
  }
}

TEST_CASE("D02: big-endian files are swapped", "[io]") {
  const TempFolder folder;
  write_file(folder / "f", npy(dict(">f4", "(2,)"), bytes_of({0x3f, 0xc0, 0, 0, 0x40, 0, 0, 0})));
  CHECK(read_npy<float>(folder / "f").values == std::vector<float>{1.5F, 2.0F});
  write_file(folder / "i", npy(dict(">i8", "(1,)"), bytes_of({0, 0, 0, 0, 0, 0, 1, 2})));
  CHECK(read_npy<std::int64_t>(folder / "i").values == std::vector<std::int64_t>{258});
}

TEST_CASE("D04: another element type is an error that names both", "[io]") {
  const TempFolder folder;
  write_file(folder / "f", npy(dict("<i8", "(1,)"), raw<std::int64_t>({1})));
  CHECK(has(why(folder / "f"), "file has \"<i8\", asked for float32"));
  CHECK(has(why(folder / "f"), "astype('float32')"));
}

TEST_CASE("npy: Fortran order is transposed while reading", "[io]") {
  const TempFolder folder;
  // a[i][j][k] = 100 i + 10 j + k of shape (2, 3, 2), first index fastest.
  std::vector<float> column;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) column.push_back(static_cast<float>(100 * i + 10 * j + k));
    }
  }
  write_file(folder / "f", npy(dict("<f4", "(2, 3, 2)", "True"), raw(column)));
  const auto a = read_npy<float>(folder / "f");
  CHECK(a.extents == std::vector<std::int64_t>{2, 3, 2});
  CHECK(a.values == std::vector<float>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121});
  write_file(folder / "e", npy(dict("<f4", "(2, 0)", "True"), ""));
  CHECK(read_npy<float>(folder / "e").values.empty());
}

TEST_CASE("npy: a file cut at any byte is an error", "[io]") {
  const TempFolder folder;
  const std::string whole = npy(dict("<f4", "(2,)"), raw<float>({1, 2}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(folder / "f", whole.substr(0, size));
    INFO(size << ": " << why(folder / "f"));
    CHECK(has(why(folder / "f"), size == 0 ? "the file is empty" : "truncated: need "));
  }
  write_file(folder / "f", whole);
  CHECK(why(folder / "f").empty());
}

TEST_CASE("npy: damaged and foreign files", "[io]") {
  const TempFolder folder;
  const std::string four = raw<float>({1});
  const struct {
    std::string content;
    std::string message;
  } table[] = {
      {"PK\x03\x04 a zip archive", "an npz archive? unzip it first"},
      {bytes_of({0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0}), "is gzip-compressed"},
      {"some text that is no array", "is not an npy file"},
      {npy(dict("<f4", "(1,)"), four, 4), "unknown npy version: found 4"},
      {npy(dict("<f4", "(1,)"), four + "x"), "has bytes after its array: found 133 bytes"},
      {npy(dict("<f4", "(2,)"), four), "truncated: need 136 bytes"},
      {npy(dict("<f4", "(4294967296, 4294967296)"), four), "more than 2^63"},
      {npy(dict("<f4", "(99999999999999999999,)"), four), "too large a number"},
      {npy(dict("<f4", "(-1,)"), four), "a negative extent"},
      {npy(dict("<f4", "(1.5,)"), four), "no ')' where one belongs"},
      {npy(dict("<f4", "(1)"), four), "a number in brackets"},
      {npy(dict("<f4", "(1"), four), "bad npy header"},
      {npy(dict("<f4", "[1]"), four), "no '(' where one belongs"},
      {npy(dict("|O", "(1,)"), four), "object arrays are Python pickles"},
      {npy(dict("<c8", "(1,)"), four), "element type that is not supported: found \"<c8\""},
      {npy(dict("|V2", "(1,)"), four), "a bfloat16 array?"},
      {npy(dict("<U3", "(1,)"), four), "not supported"},
      {npy(dict("", "(1,)"), four), "not supported"},
      {npy(dict("|f4", "(1,)"), four), "without a byte order"},
      {npy(dict("<f4", "(1,)", "Maybe"), four), "neither True nor False"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", four),
       "holds a structured array"},
      {npy("{'descr': '<f4', 'shape': (1,)}", four), "key 'fortran_order' is missing"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", four), "twice"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", four), "unknown key"},
      {npy("{'descr': '<\\x664', 'fortran_order': False, 'shape': (1,)}", four), "escape sequence"},
      {npy(dict("<f4", "(1,)") + "; import os", four), "text after the closing brace"},
      {npy(dict("<f4", "(1,)") + std::string(1, '\0'), four), "a zero byte"},
      {npy("", four), "no '{' where one belongs"},
      {"\x93NUMPY" + bytes_of({2, 0, 0xff, 0xff, 0xff, 0xff}) + std::string(100, ' '),
       "a length of 4294967295 bytes"},
  };
  for (const auto& row : table) {
    write_file(folder / "f", row.content);
    INFO(row.message << " <- " << why(folder / "f"));
    CHECK(has(why(folder / "f"), row.message));
  }
}
