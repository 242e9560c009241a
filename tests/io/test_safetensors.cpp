// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/safetensors.hpp>
//
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/io_test.hpp"
#include "io/safetensors_test.hpp"

using namespace io_test;
using krama::io::Checksums;
using krama::io::ElementType;
using krama::io::SafetensorsReader;
using krama::io::SafetensorsWriter;
using krama::io::TensorSpec;

namespace {

std::string why(const fs::path& path) {
  return message_of([&] { SafetensorsReader reader(path); });
}

/// The JSON of one tensor "a" of type F32.
std::string entry(const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("safetensors: round trip of every element type", "[io]") {
  const TempFolder folder;
  std::vector<TensorSpec> specs;
  for (const auto& row : krama::io::detail::element_types) {
    specs.push_back({"t." + std::string(row.plain), row.type, {3, 5}});
  }
  specs.push_back({"scalar", ElementType::f64, {}});
  specs.push_back({"nothing", ElementType::f32, {4, 0}});
  specs.push_back({"a \"strange\" näme\n", ElementType::u8, {1}});
  {
    SafetensorsWriter writer(folder / "f", specs, {{"format", "krama"}, {"", "empty key"}});
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(
          *krama::io::detail::packed_bytes(specs[i].extents, size_of(specs[i].type)));
      const std::vector<std::byte> data(bytes, static_cast<std::byte>(i + 1));
      writer.write(specs[i].name, data);
    }
    writer.commit();
  }
  const SafetensorsReader reader(folder / "f");
  REQUIRE(reader.tensors().size() == specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& t = reader.at(specs[i].name);
    CHECK(t.type == specs[i].type);
    CHECK(t.extents == specs[i].extents);
    std::vector<std::byte> data(static_cast<std::size_t>(t.bytes()));
    reader.read_bytes(t, data);
    CHECK(data == std::vector<std::byte>(data.size(), static_cast<std::byte>(i + 1)));
  }
  CHECK(reader.metadata().at("format") == "krama");
  CHECK(reader.metadata().at("") == "empty key");
  CHECK(reader.find("t.float33") == nullptr);
  // The layout that the format's own writer gives: data at a multiple of eight.
  const std::string file = read_file(folder / "f");
  CHECK(krama::io::detail::load_le<std::uint64_t>(as_bytes(file)) % 8 == 0);
  CHECK(file[8] == '{');
}

TEST_CASE("safetensors: typed reads check name, type, shape and size", "[io]") {
  const TempFolder folder;
  write_floats(folder / "f", {"w", "b"}, 3);
  const SafetensorsReader reader(folder / "f");
  CHECK(reader.read<float>("b") == std::vector<float>{1, 1, 1});
  std::vector<float> out(3);
  const std::vector<std::int64_t> three{3};
  const std::vector<std::int64_t> row{1, 3};
  reader.read<float>("b", three, out);
  CHECK(out[2] == 1);
  CHECK(has(message_of([&] { reader.read<float>("b", row, out); }),
            "\"b\" has another shape: found [3], wanted [1, 3]"));
  CHECK(has(message_of([&] { (void)reader.read<double>("b"); }),
            "\"b\" has another element type: found float32, wanted float64"));
  CHECK(has(message_of([&] { (void)reader.read<float>("c"); }), "no tensor \"c\""));
  CHECK(has(message_of([&] { reader.read<float>("b", three, std::span(out).first(2)); }),
            "does not fit its destination: found 12 bytes, wanted 8"));
  float last = 0;
  reader.read_part(reader.at("b"), 8, std::as_writable_bytes(std::span(&last, 1)));
  CHECK(last == 1);
  CHECK(has(message_of([&] {
              reader.read_part(reader.at("b"), 9, std::as_writable_bytes(std::span(&last, 1)));
            }),
            "piece out of range"));
}

TEST_CASE("safetensors: files of other writers", "[io]") {
  const TempFolder folder;
  // Padded with spaces, keys in another order, no metadata, data not in the order of the header.
  write_file(folder / "f",
             safetensors(R"({"b":{"shape":[2],"data_offsets":[4,6],"dtype":"U8"},)"
                         R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}     )",
                         "AAAAbc"));
  const SafetensorsReader reader(folder / "f");
  CHECK(reader.tensors()[0].name == "a");
  CHECK(reader.read<std::uint8_t>("b") == std::vector<std::uint8_t>{'b', 'c'});
  write_file(folder / "f", safetensors("{}", ""));
  CHECK(SafetensorsReader(folder / "f").tensors().empty());
}

TEST_CASE("K06: damaged and hostile headers are refused with file, tensor and reason", "[io]") {
  const TempFolder folder;
  const auto length = [](std::uint64_t n, const std::string& rest) {
    std::string out;
    for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>((n >> (8 * i)) & 0xffU);
    return out + rest;
  };
  const std::string nested = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const std::string two =
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8",)";
  const struct {
    std::string name;
    std::string content;
    std::string message;
  } table[] = {
      {"N=0", length(0, "{}xxxx"), "bad safetensors header length: found 0"},
      {"N=1", length(1, "{}xxxx"), "bad safetensors header length: found 1"},
      {"N too large for the file", length(7, "{}xxxx"), "truncated: need 15 bytes"},
      {"N=2^64-1", length(~std::uint64_t{0}, "{}"), "header length: found 18446744073709551615"},
      {"N=2^64-5", length(~std::uint64_t{4}, "{}"), "header length: found 18446744073709551611"},
      {"N=2^63", length(std::uint64_t{1} << 63, "{}"), "bad safetensors header length"},
      {"N over the cap", length(100'000'001, "{}"), "wanted 2 to 100000000 bytes"},
      {"not JSON", safetensors("{a:1}", ""), "no JSON at its byte 2"},
      {"cut JSON", safetensors(R"({"a":)", ""), "no JSON"},
      {"an array", safetensors("[1,2]", ""), "no '{' at its start"},
      {"a space first", safetensors(" {}", ""), "no '{' at its start"},
      {"two objects", safetensors("{}{}", ""), "no JSON"},
      {"zero byte inside", safetensors(std::string("{}\0 ", 4), ""), "a zero byte"},
      {"zero in a name", safetensors(R"({"a\u0000b":{}})", ""), "a zero character in a name"},
      {"one offset", safetensors(entry("[1]", "[0]"), "xxxx"), "\"a\": found 1 data_offsets"},
      {"no offset", safetensors(entry("[1]", "[]"), "xxxx"), "\"a\": found 0 data_offsets"},
      {"three offsets", safetensors(entry("[1]", "[0,4,4]"), "xxxx"), "more than two data_offsets"},
      {"negative offset", safetensors(entry("[1]", "[-4,0]"), "xxxx"), "negative number -4"},
      {"minus zero", safetensors(entry("[1]", "[-0,4]"), "xxxx"), "in data_offsets"},
      {"float offset", safetensors(entry("[1]", "[0,4.0]"), "xxxx"),
       "number \"4.0\" in data_offsets"},
      {"string offset", safetensors(entry("[1]", R"([0,"4"])"), "xxxx"),
       "a string in data_offsets"},
      {"null offset", safetensors(entry("[1]", "[0,null]"), "xxxx"), "null in data_offsets"},
      {"nested offset", safetensors(entry("[1]", "[[0],4]"), "xxxx"), "an array in data_offsets"},
      {"object offset", safetensors(entry("[1]", "[{},4]"), "xxxx"), "an object in data_offsets"},
      {"bool for offsets", safetensors(entry("[1]", "true"), "xxxx"), "a boolean for data_offsets"},
      {"1e400", safetensors(entry("[1]", "[0,1e400]"), "xxxx"), "no JSON"},
      {"2^64", safetensors(entry("[1]", "[0,18446744073709551616]"), "xxxx"), "in data_offsets"},
      {"2^63 offset", safetensors(entry("[1]", "[0,9223372036854775808]"), "xxxx"),
       "less than 2^63"},
      {"backwards", safetensors(entry("[1]", "[4,0]"), "xxxx"),
       "\"a\": data_offsets run backwards"},
      {"beyond the end", safetensors(entry("[2]", "[0,8]"), "xxxx"), "\"a\": data_offsets beyond"},
      {"span too small", safetensors(entry("[2]", "[0,4]"), "xxxx"), "do not fit shape and dtype"},
      {"span too large", safetensors(entry("[1]", "[0,8]"), "xxxxxxxx"), "wanted 4 for float32[1]"},
      {"product overflows", safetensors(entry("[4294967296,4294967296]", "[0,0]"), ""),
       "2^63 bytes"},
      {"product wraps to 4", safetensors(entry("[4611686018427387905,1]", "[0,4]"), "xxxx"),
       "2^63"},
      {"overflow beside zero", safetensors(entry("[4294967296,4294967296,0]", "[0,0]"), ""),
       "2^63"},
      {"negative extent", safetensors(entry("[-1]", "[0,4]"), "xxxx"),
       "negative number -1 in shape"},
      {"float extent", safetensors(entry("[1.0]", "[0,4]"), "xxxx"), "in shape"},
      {"extent 2^63", safetensors(entry("[9223372036854775808]", "[0,4]"), "xxxx"), "extent"},
      {"shape a number", safetensors(entry("1", "[0,4]"), "xxxx"), "a number for shape"},
      {"unknown dtype",
       safetensors(R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", "xxxx"),
       "unknown dtype \"F31\""},
      {"dtype a number",
       safetensors(R"({"a":{"dtype":32,"shape":[],"data_offsets":[0,4]}})", "xxxx"),
       "a number for dtype"},
      {"no dtype", safetensors(R"({"a":{"shape":[],"data_offsets":[0,4]}})", "xxxx"),
       "without dtype"},
      {"no shape", safetensors(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "xxxx"), "without"},
      {"old key", safetensors(R"({"a":{"dtype":"F32","shape":[],"offsets":[0,4]}})", "xxxx"),
       "unknown key \"offsets\""},
      {"key twice", safetensors(R"({"a":{"dtype":"F32","dtype":"F32"}})", ""),
       "duplicate key \"dtype\""},
      {"tensor twice",
       safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                   "xx"),
       "tensor \"a\" twice"},
      {"tensor twice, escaped",
       safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                   "xx"),
       "tensor \"a\" twice"},
      {"overlap", safetensors(two + R"("shape":[2],"data_offsets":[1,3]}})", "xxx"),
       "\"b\" overlaps its predecessor: found begin 1, wanted 2"},
      {"alias", safetensors(two + R"("shape":[2],"data_offsets":[0,2]}})", "xx"), "overlaps"},
      {"hole", safetensors(two + R"("shape":[1],"data_offsets":[3,4]}})", "xxxx"),
       "\"b\" leaves a hole before it"},
      {"hole at the start", safetensors(entry("[1]", "[4,8]"), "xxxxxxxx"), "leaves a hole"},
      {"trailing bytes", safetensors(entry("[1]", "[0,4]"), "xxxxx"), "belong to no tensor"},
      {"empty one inside another", safetensors(two + R"("shape":[0],"data_offsets":[1,1]}})", "xx"),
       "overlaps"},
      {"metadata a string", safetensors(R"({"__metadata__":"x"})", ""), "wanted an object"},
      {"metadata of numbers", safetensors(R"({"__metadata__":{"a":1}})", ""),
       "a number in __metadata__"},
      {"metadata of objects", safetensors(R"({"__metadata__":{"a":{}}})", ""),
       "an object in __metadata__"},
      {"metadata twice", safetensors(R"({"__metadata__":{},"__metadata__":{}})", ""),
       "duplicate key"},
      {"metadata key twice", safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", ""),
       "duplicate key"},
      {"tensor a null", safetensors(R"({"a":null})", ""), "null for \"a\""},
      {"deep nesting", safetensors("{\"a\":" + nested + "}", ""), "an array for \"a\""},
      {"deep in the shape", safetensors(entry(nested, "[0,4]"), "xxxx"), "an array in shape"},
      {"invalid UTF-8", safetensors("{\"a\xff\":{}}", ""), "no JSON"},
      {"lone surrogate", safetensors(R"({"\ud800":{}})", ""), "no JSON"},
      {"gzip", bytes_of({0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0}), "is gzip-compressed"},
      {"a terminal escape in a name", safetensors("{\"\\u001b[2J\":1}", ""), "\\x1b[2J"},
  };
  for (const auto& row : table) {
    write_file(folder / "f", row.content);
    const std::string message = why(folder / "f");
    INFO(row.name << ": " << message);
    CHECK(has(message, row.message));
    CHECK(message.starts_with((folder / "f").string() + ": "));
    CHECK(message.size() < 500);
  }
}

TEST_CASE("K06: a file cut at any byte is an error", "[io]") {
  const TempFolder folder;
  write_floats(folder / "whole", {"w", "b"});
  const std::string whole = read_file(folder / "whole");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(folder / "f", whole.substr(0, size));
    const std::string message = why(folder / "f");
    INFO(size << ": " << message);
    const auto header = whole.size() - 16;
    CHECK(has(message, size == 0       ? "the file is empty"
                       : size < header ? "truncated: need "
                                       : "beyond the end of the data"));
  }
}

TEST_CASE("K06: a million tensors take seconds, not hours", "[io]") {
  std::string json = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    const std::string at = std::to_string(i);
    json += (i == 0 ? "\"" : ",\"") + at + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + at +
            "," + std::to_string(i + 1) + "]}";
  }
  json += "}";
  REQUIRE(json.size() < 100'000'000);
  const std::clock_t start = std::clock();  // of the processor: the machine may be busy
  const auto header = krama::io::parse_safetensors_header(json, 1'000'000, "f");
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  CHECK(header.tensors.size() == 1'000'000);
  INFO(took << " s");
  CHECK(took < 30.0);
}

TEST_CASE("K07: missing and unexpected tensors are listed", "[io]") {
  const TempFolder folder;
  write_floats(folder / "f", {"a", "b", "stray"});
  const SafetensorsReader reader(folder / "f");
  const std::vector<std::string> wanted{"b", "a", "head"};
  CHECK(has(message_of([&] { reader.expect_exactly(wanted); }),
            "missing: \"head\"; unexpected: \"stray\""));
  const std::vector<std::string> all{"stray", "b", "a"};
  CHECK(message_of([&] { reader.expect_exactly(all); }).empty());
}

TEST_CASE("K11: a flipped bit in any byte of a file is an error", "[io]") {
  const TempFolder folder;
  {
    SafetensorsWriter writer(folder / "whole",
                             {{"w", ElementType::f32, {2}}, {"step", ElementType::i32, {1}}},
                             {{"epoch", "5"}});
    writer.write<float>("w", std::vector<float>{1, 2});
    writer.write<std::int32_t>("step", std::vector<std::int32_t>{7});
    writer.commit();
  }
  const std::string whole = read_file(folder / "whole");
  const auto load = [](const fs::path& path) {
    const SafetensorsReader reader(path);
    (void)reader.read<float>("w");
    (void)reader.read<std::int32_t>("step");
  };
  load(folder / "whole");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 5}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      write_file(folder / "f", damaged);
      INFO("byte " << at << " bit " << bit << " of " << whole);
      CHECK_FALSE(message_of([&] { load(folder / "f"); }).empty());
    }
  }
  std::string damaged = whole;
  damaged[whole.size() - 5] ^= 1;
  write_file(folder / "f", damaged);
  CHECK(has(message_of([&] { load(folder / "f"); }), "tensor \"w\": checksum mismatch"));
  const SafetensorsReader forgiving(folder / "f", Checksums::ignore);
  CHECK(forgiving.read<float>("w").size() == 2);
}

TEST_CASE("K11: checksums are CRC-32C, in both ways of computing it", "[io]") {
  using krama::io::detail::Crc32c;
  CHECK(krama::io::detail::crc32c(as_bytes("123456789")) == 0xE3069283U);
  CHECK(krama::io::detail::crc32c({}) == 0);
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto bytes = as_bytes(text).first(size);
    Crc32c whole;
    Crc32c table;
    Crc32c pieces;
    whole.add(bytes);
    table.add_table(bytes);
    pieces.add(bytes.first(size / 3));
    pieces.add(bytes.subspan(size / 3));
    CHECK(whole.value() == table.value());
    CHECK(whole.value() == pieces.value());
  }
}

TEST_CASE("safetensors: misuse of the writer", "[io]") {
  const TempFolder folder;
  write_file(folder / "f", "old");
  {
    SafetensorsWriter writer(
        folder / "f",
        {{"a", ElementType::f32, {2}}, {"e", ElementType::u8, {0}}, {"b", ElementType::f32, {1}}});
    const std::vector<float> two{1, 2};
    CHECK_THROWS_AS(writer.write<float>("b", two), std::logic_error);
    CHECK_THROWS_AS(writer.commit(), std::logic_error);
    CHECK_THROWS_AS(writer.write<float>("a", std::vector<float>(3)), std::logic_error);
    writer.write<float>("a", two);
    writer.write<std::uint8_t>("e", std::vector<std::uint8_t>{});
    CHECK_THROWS_AS(writer.write<float>("a", two), std::logic_error);
    CHECK_THROWS_AS(writer.commit(), std::logic_error);
  }
  CHECK(read_file(folder / "f") == "old");
  const auto refused = [&](std::vector<TensorSpec> specs, std::map<std::string, std::string> meta) {
    return message_of([&] { SafetensorsWriter writer(folder / "f", std::move(specs), meta); });
  };
  const TensorSpec one{"a", ElementType::f32, {1}};
  CHECK(has(refused({one, one}, {}), "twice"));
  CHECK(has(refused({{"__metadata__", ElementType::f32, {1}}}, {}), "__metadata__"));
  CHECK(has(refused({{"\xff", ElementType::f32, {1}}}, {}), "no UTF-8"));
  CHECK(has(refused({{"a", ElementType::f32, {-1}}}, {}), "impossible shape: found [-1]"));
  CHECK(has(refused({one}, {{"krama.crc32c:a", "0"}}), "is reserved"));
  CHECK(has(refused({one}, {{"a", "\xff"}}), "no UTF-8"));
  CHECK(read_file(folder / "f") == "old");
}

TEST_CASE("safetensors: the Python package reads it", "[io]") {
  if (std::system("python3 -c 'import safetensors.numpy' 2>/dev/null") != 0) {
    SKIP("no Python package safetensors");
  }
  const TempFolder folder;
  write_floats(folder / "f", {"w", "b"});
  const std::string command =
      "python3 -c 'import sys; from safetensors.numpy import load_file; t=load_file(sys.argv[1]); "
      "assert t[\"b\"].tolist()==[1,1] and t[\"w\"].tolist()==[0,0]' ";
  CHECK(std::system((command + (folder / "f").string()).c_str()) == 0);
}
