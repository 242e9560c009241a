// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/safetensors_shards.hpp>
//
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "io/io_test.hpp"
#include "io/safetensors_test.hpp"

using namespace io_test;
using krama::io::SafetensorsShards;

namespace {

/// Two files with two tensors each, and their index.
struct Model {
  TempFolder folder;
  fs::path index = folder / "model.safetensors.index.json";
  std::string first = "model-00001-of-00002.safetensors";
  std::string second = "model-00002-of-00002.safetensors";

  Model() {
    write_floats(folder / first, {"a", "b"});
    write_floats(folder / second, {"c", "d"});
    write_index({{"a", first}, {"b", first}, {"c", second}, {"d", second}});
  }
  void write_index(const std::vector<std::pair<std::string, std::string>>& map) const {
    nlohmann::json json;
    json["metadata"]["total_size"] = 32;
    json["weight_map"] = nlohmann::json::object();
    for (const auto& [tensor, file] : map) json["weight_map"][tensor] = file;
    write_file(index, json.dump());
  }
  [[nodiscard]] std::string why() const {
    return message_of([&] { SafetensorsShards shards(index); });
  }
};

}  // namespace

TEST_CASE("K07: a model in two files", "[io]") {
  const Model m;
  write_floats(m.folder / "stray.safetensors", {"a", "z"});  // is not looked at
  const SafetensorsShards shards(m.index);
  CHECK(shards.names() == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(shards.file_of("d").read<float>("d") == std::vector<float>{1, 1});
  CHECK(has(message_of([&] { (void)shards.file_of("z"); }), "names no tensor \"z\""));
}

TEST_CASE("K07: a file or a tensor that is missing or stale is an error", "[io]") {
  const Model m;
  SECTION("missing file") {
    fs::remove(m.folder / m.second);
    CHECK(has(m.why(), "names files that are not there: found \"" + m.second + "\""));
  }
  SECTION("both files missing") {
    fs::remove(m.folder / m.first);
    fs::remove(m.folder / m.second);
    CHECK(has(m.why(), "\"" + m.first + "\", \"" + m.second + "\""));
  }
  SECTION("the index names a tensor that the file has not") {
    m.write_index(
        {{"a", m.first}, {"b", m.first}, {"c", m.second}, {"d", m.second}, {"e", m.first}});
    CHECK(has(m.why(), "names tensors that are not in their file"));
    CHECK(has(m.why(), "\"e\" in \"" + m.first + "\""));
  }
  SECTION("the index sends a tensor to the other file") {
    m.write_index({{"a", m.second}, {"b", m.first}, {"c", m.second}, {"d", m.second}});
    CHECK(has(m.why(), "\"a\" in \"" + m.second + "\""));
  }
  SECTION("a file holds a tensor that the index does not name") {
    m.write_index({{"a", m.first}, {"b", m.first}, {"c", m.second}});
    CHECK(has(m.why(), "does not name tensors that its files hold"));
    CHECK(has(m.why(), "\"d\" in \"" + m.second + "\""));
  }
  SECTION("a truncated file") {
    fs::resize_file(m.folder / m.second, fs::file_size(m.folder / m.second) - 1);
    CHECK(has(m.why(), m.second + ": tensor \"d\": data_offsets beyond"));
  }
}

TEST_CASE("K07: bad indexes", "[io]") {
  const Model m;
  const struct {
    std::string content;
    std::string message;
  } table[] = {
      {"", "the file is empty"},
      {"{", "is not JSON"},
      {"[]", "has no object \"weight_map\""},
      {R"({"weight_map":[]})", "has no object \"weight_map\""},
      {R"({"weight_map":{"a":1}})", "no plain file name for tensor \"a\""},
      {R"({"weight_map":{"a":"../x"}})", "no plain file name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "no plain file name"},
      {R"({"weight_map":{"a":".."}})", "no plain file name"},
      {R"({"weight_map":{"a":""}})", "no plain file name"},
      {R"({"weight_map":{"a":"x","a":"y"}})", "has a key twice: found \"a\""},
  };
  for (const auto& row : table) {
    write_file(m.index, row.content);
    INFO(row.content << ": " << m.why());
    CHECK(has(m.why(), row.message));
  }
  fs::remove(m.index);
  CHECK(has(m.why(), "no such file"));
}
