// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/idx.hpp>
#include <krama/io/npy_header.hpp>
#include <krama/io/safetensors.hpp>
//
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/io_test.hpp"
#include "io/safetensors_test.hpp"

// Valid headers, mutated by a fixed sequence of random numbers: each result must parse to something
// consistent or throw FileError. Any other exception, and whatever a sanitizer finds, is a failure.
// KRAMA_FUZZ_ROUNDS sets the number of mutations per format.

using namespace io_test;

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 2685821657736338717ULL;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((next() >> 32) % n); }

 private:
  std::uint64_t state_;
};

const std::vector<std::string>& words() {
  static const std::vector<std::string> list{"0",
                                             "-1",
                                             "1e400",
                                             "18446744073709551615",
                                             "9223372036854775807",
                                             "4294967296",
                                             "null",
                                             "[",
                                             "]",
                                             "{",
                                             "}",
                                             "\"",
                                             ":",
                                             ",",
                                             "(",
                                             ")",
                                             "'",
                                             "\\",
                                             "\\u0000",
                                             "\\ud800",
                                             "\xff",
                                             std::string(1, '\0'),
                                             "__metadata__",
                                             "dtype",
                                             "shape",
                                             "data_offsets",
                                             "descr",
                                             "True",
                                             "<f8",
                                             ">i2",
                                             "|O",
                                             "F64",
                                             "BOOL",
                                             "\n",
                                             "L"};
  return list;
}

std::string mutate(std::string text, Random& random) {
  for (std::size_t n = 1 + random.below(4); n > 0; --n) {
    const std::size_t at = random.below(text.size() + 1);
    const std::size_t count = std::min(text.size() - at, random.below(9));
    switch (random.below(7)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random.next());
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 2:
        text.erase(at, count);
        break;
      case 3:
        text.insert(at, text.substr(random.below(text.size() + 1), count));
        break;
      case 4:
        text.insert(at, words()[random.below(words().size())]);
        break;
      case 5:
        text.replace(at, count, words()[random.below(words().size())]);
        break;
      default:
        if (random.below(4) == 0) text.resize(at);
        break;
    }
  }
  return text;
}

/// Calls `parse` on mutations of `seed`. \return how many were accepted
template <class Parse>
int fuzz(const std::string& seed, Parse&& parse) {
  const char* given = std::getenv("KRAMA_FUZZ_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 20'000;
  Random random(0x9E3779B97F4A7C15ULL + seed.size());
  int accepted = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string text = mutate(seed, random);
    try {
      // An exact copy on the heap, so that a sanitizer sees one byte too many.
      const std::vector<char> exact(text.begin(), text.end());
      parse(std::string_view(exact.data(), exact.size()));
      ++accepted;
    } catch (const krama::io::FileError&) {
    }
  }
  return accepted;
}

std::int64_t count(std::size_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

TEST_CASE("K06: fuzz: safetensors headers", "[io]") {
  const std::string seed =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"U8","shape":[0],"data_offsets":[24,24]},)"
      R"("c":{"dtype":"F64","shape":[],"data_offsets":[24,32]}}  )";
  const int accepted = fuzz(seed, [](std::string_view text) {
    const auto header = krama::io::parse_safetensors_header(text, 32, "fuzz");
    std::int64_t cursor = 0;
    for (const auto& t : header.tensors) {
      REQUIRE(t.begin == cursor);
      REQUIRE(krama::io::detail::packed_bytes(t.extents, size_of(t.type)) == t.bytes());
      cursor = t.end;
    }
    REQUIRE(cursor == 32);
  });
  CHECK(accepted > 0);
}

TEST_CASE("K06: fuzz: whole safetensors files", "[io]") {
  const TempFolder folder;
  const std::string seed =
      safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  int rounds = 0;
  const int accepted = fuzz(seed, [&](std::string_view text) {
    if (++rounds > 2000) throw krama::io::FileError({.file = "fuzz", .what = "enough"});
    write_file(folder / "f", text);
    const krama::io::SafetensorsReader reader(folder / "f");
    for (const auto& t : reader.tensors()) {
      std::vector<std::byte> data(static_cast<std::size_t>(t.bytes()));
      reader.read_bytes(t, data);
    }
  });
  CHECK(accepted > 0);
}

TEST_CASE("npy: fuzz: headers", "[io]") {
  const std::string dict =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }          \n";
  for (const int major : {1, 2}) {
    std::string seed = "\x93NUMPY" + bytes_of({major, 0, static_cast<int>(dict.size()), 0});
    if (major == 2) seed += bytes_of({0, 0});
    seed += dict;
    const int accepted = fuzz(seed, [&](std::string_view text) {
      const auto header =
          krama::io::parse_npy_header(as_bytes(text), count(text.size()) + 24, "fuzz");
      REQUIRE(header.data_offset + header.data_bytes == count(text.size()) + 24);
    });
    CHECK(accepted > 0);
  }
}

TEST_CASE("D06: fuzz: idx headers", "[io]") {
  const std::string seed = bytes_of({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4});
  const int accepted = fuzz(seed, [](std::string_view text) {
    const auto header = krama::io::parse_idx_header(as_bytes(text), 40, "fuzz");
    REQUIRE(header.data_offset + header.data_bytes == 40);
  });
  CHECK(accepted > 0);
}
