// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#pragma once

#include <krama/comm/mpi/communicator.hpp>

#include <catch2/catch_all.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace train_test {

/// A folder that all ranks see, gone with the object.
class SharedFolder {
 public:
  explicit SharedFolder(krama::MpiComm world) : world_(world) {
    std::string made;
    if (world.rank() == 0) {
      std::string pattern =
          (std::filesystem::temp_directory_path() / "krama-train-XXXXXX").string();
      REQUIRE(::mkdtemp(pattern.data()) != nullptr);
      made = pattern;
    }
    path_ = world.gather_text(made, "folder").front();
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() {
    world_.barrier("folder");
    if (world_.rank() == 0) std::filesystem::remove_all(path_);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator{}));
  }

 private:
  krama::MpiComm world_;
  std::filesystem::path path_;
};

}  // namespace train_test
