// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/file.hpp>
#include <krama/io/text.hpp>
//
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "io/io_test.hpp"

using namespace io_test;
using krama::io::read_text;
using krama::io::read_whole_file;

TEST_CASE("file: reads all bytes", "[io]") {
  const TempFolder folder;
  std::string content(100'000, 'x');
  content[77'777] = '\0';
  write_file(folder / "f", content);
  const auto bytes = read_whole_file(folder / "f");
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == content);
}

TEST_CASE("file: each way of not being a file has its message", "[io]") {
  const TempFolder folder;
  const auto why = [](const fs::path& path) {
    return message_of([&] { (void)read_whole_file(path); });
  };
  const std::string missing = why(folder / "nothing");
  CHECK(has(missing, (folder / "nothing").string() + ": no such file"));
  CHECK(has(missing, "the folder is there"));
  CHECK(has(why(folder / "a/b"), "does not exist either"));
  CHECK(has(why(folder.path()), "is a folder"));
  CHECK(has(why("/dev/null"), "is not a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(has(why(folder / "pipe"), "is not a regular file"));  // and does not wait for a writer
  write_file(folder / "empty", "");
  CHECK(has(why(folder / "empty"), "the file is empty"));
  write_file(folder / "f", "12345");
  CHECK(
      has(message_of([&] { (void)read_whole_file(folder / "f", 4); }), "too large: found 5 bytes"));
  const krama::io::InputFile file(folder / "f");
  std::vector<std::byte> out(4);
  CHECK(has(message_of([&] { file.read_at(2, out, "a part"); }),
            "truncated: need 6 bytes for a part, have 5"));
  CHECK(has(message_of([&] { file.read_at(-1, out, "a part"); }), "truncated"));
  fs::resize_file(folder / "f", 3);
  CHECK(has(message_of([&] { file.read_at(1, out, "a part"); }), "shrank while it was read"));
}

TEST_CASE("file: messages do not carry control characters", "[io]") {
  CHECK(krama::io::detail::in_quotes("a\x1b[2J\n\"") == "\"a\\x1b[2J\\x0a\\x22\"");
  CHECK(krama::io::detail::in_quotes("abcdef", 3) == "\"abc...\"");
}

TEST_CASE("text: bytes and the last part held out", "[io]") {
  const TempFolder folder;
  write_file(folder / "t", "0123456789\xff");
  const auto text = read_text(folder / "t");
  REQUIRE(text.bytes.size() == 11);
  CHECK(text.bytes[10] == 255);
  const auto parts = krama::io::split(text, 0.2);
  CHECK(parts.train.size() == 9);
  CHECK(parts.held_out.size() == 2);
  CHECK(parts.held_out[0] == '9');
  CHECK(krama::io::split(text, 0.0).held_out.empty());
  CHECK(has(message_of([&] { (void)krama::io::split(text, 0.01); }), "too short to hold out"));
  CHECK(has(message_of([&] { (void)krama::io::split(text, 1.0); }), "bad hold-out fraction"));
  CHECK(has(message_of([&] { (void)krama::io::split(text, -0.1); }), "bad hold-out fraction"));
  write_file(folder / "z", bytes_of({0x1f, 0x8b, 8, 0, 0}));
  CHECK(has(message_of([&] { (void)read_text(folder / "z"); }), "is gzip-compressed"));
  write_file(folder / "e", "");
  CHECK(has(message_of([&] { (void)read_text(folder / "e"); }), "the file is empty"));
}

TEST_CASE("text: a real one", "[io]") {
  const auto path = data_folder() / "tinyshakespeare.txt";
  if (!fs::exists(path)) SKIP("no " << path.string());
  const auto text = read_text(path);
  CHECK(text.bytes.size() == 1'115'394);
  const auto parts = krama::io::split(text, 0.1);
  CHECK(parts.held_out.size() == 111'539);
  CHECK(parts.train.size() + parts.held_out.size() == text.bytes.size());
}
