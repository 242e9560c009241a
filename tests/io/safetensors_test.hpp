// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/io/safetensors.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/io_test.hpp"

namespace io_test {

/// A safetensors file of any JSON, well-formed or not.
inline std::string safetensors(std::string_view json, std::string_view data) {
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) {
    out += static_cast<char>((std::uint64_t{json.size()} >> (8 * i)) & 0xffU);
  }
  out += json;
  out += data;
  return out;
}

/// Writes tensors of float, each of one dimension and filled with its index.
inline void write_floats(const std::filesystem::path& path, const std::vector<std::string>& names,
                         std::int64_t extent = 2) {
  std::vector<krama::io::TensorSpec> specs;
  for (const auto& name : names) specs.push_back({name, krama::io::ElementType::f32, {extent}});
  krama::io::SafetensorsWriter writer(path, specs);
  for (std::size_t i = 0; i < names.size(); ++i) {
    writer.write<float>(
        names[i], std::vector<float>(static_cast<std::size_t>(extent), static_cast<float>(i)));
  }
  writer.commit();
}

}  // namespace io_test
