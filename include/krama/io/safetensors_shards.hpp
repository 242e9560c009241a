// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/error.hpp>
#include <krama/io/file.hpp>
#include <krama/io/safetensors_reader.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace krama::io {

/// Reads a model that is spread over several safetensors files, by its index
/// (`model.safetensors.index.json`: {"weight_map": {tensor: file name}}). All files are opened and
/// compared with the index at once; files beside them that the index does not name are not looked
/// at.
class SafetensorsShards {
 public:
  explicit SafetensorsShards(const std::filesystem::path& index,
                             Checksums checksums = Checksums::verify);

  /// The file that holds the tensor; throws if none does.
  [[nodiscard]] const SafetensorsReader& file_of(std::string_view tensor) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& found) const {
    throw FileError({.file = name_, .what = "index " + what, .found = found});
  }

  std::map<std::string, std::string, std::less<>> read_index(
      const std::filesystem::path& path) const;

  std::string name_;
  std::vector<std::unique_ptr<SafetensorsReader>> readers_;
  std::map<std::string, const SafetensorsReader*, std::less<>> where_;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE SafetensorsShards::SafetensorsShards(const std::filesystem::path& index,
                                                  Checksums checksums)
    : name_(index.string()) {
  const std::map<std::string, std::string, std::less<>> weight_map = read_index(index);
  std::string missing;
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!std::filesystem::exists(index.parent_path() / file, ignored)) {
      missing += (missing.empty() ? "" : ", ") + detail::in_quotes(file);
    }
  }
  if (!missing.empty()) fail("names files that are not there", missing);
  std::map<std::string, const SafetensorsReader*> by_file;
  for (const std::string& file : files) {
    readers_.push_back(std::make_unique<SafetensorsReader>(index.parent_path() / file, checksums));
    by_file[file] = readers_.back().get();
  }
  std::string lost;
  for (const auto& [tensor, file] : weight_map) {
    if (by_file[file]->find(tensor) == nullptr) {
      lost +=
          (lost.empty() ? "" : ", ") + detail::in_quotes(tensor) + " in " + detail::in_quotes(file);
    }
    where_[tensor] = by_file[file];
  }
  if (!lost.empty()) fail("names tensors that are not in their file (a stale index?)", lost);
  std::string extra;
  for (const auto& [file, reader] : by_file) {
    for (const TensorEntry& t : reader->tensors()) {
      const auto it = where_.find(t.name);
      if (it != where_.end() && it->second == reader) continue;
      extra += (extra.empty() ? "" : ", ") + detail::in_quotes(t.name) + " in " +
               detail::in_quotes(file);
    }
  }
  if (!extra.empty()) fail("does not name tensors that its files hold (a stale index?)", extra);
}

KRAMA_INLINE const SafetensorsReader& SafetensorsShards::file_of(std::string_view tensor) const {
  const auto it = where_.find(tensor);
  if (it == where_.end()) fail("names no tensor " + detail::in_quotes(tensor), "");
  return *it->second;
}

KRAMA_INLINE std::vector<std::string> SafetensorsShards::names() const {
  std::vector<std::string> names;
  for (const auto& [tensor, reader] : where_) names.push_back(tensor);
  return names;
}

KRAMA_INLINE std::map<std::string, std::string, std::less<>> SafetensorsShards::read_index(
    const std::filesystem::path& path) const {
  const std::vector<std::byte> bytes =
      read_whole_file(path, static_cast<std::int64_t>(detail::safetensors_header_limit));
  std::set<std::string> seen;
  const auto no_key_twice = [&](int depth, nlohmann::json::parse_event_t event,
                                nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::key && depth == 2 &&
        !seen.insert(value.get<std::string>()).second) {
      fail("has a key twice", detail::in_quotes(value.get<std::string>()));
    }
    return true;
  };
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, text + bytes.size(), no_key_twice);
  } catch (const nlohmann::json::exception& error) {
    fail("is not JSON", detail::in_quotes(error.what(), 160));
  }
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    fail("has no object \"weight_map\"", "");
  }
  std::map<std::string, std::string, std::less<>> weight_map;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const std::string name = file.is_string() ? file.template get<std::string>() : "";
    // A name with folders in it would reach out of the model's folder.
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      fail("gives no plain file name for tensor " + detail::in_quotes(tensor),
           detail::in_quotes(name));
    }
    weight_map[tensor] = name;
  }
  return weight_map;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
