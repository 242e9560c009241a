// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

/// Benchmarks that are both the driver and the job it starts. CMake gives them KRAMA_BENCH_DIR and
/// KRAMA_LAUNCH.
namespace krama::bench {

/// The path of this executable; empty when it cannot be told.
inline std::string own_path() {
  std::array<char, 4096> path{};
  return readlink("/proc/self/exe", path.data(), path.size() - 1) > 0 ? path.data() : "";
}

/// Runs `words` of `self` on `ranks` ranks of one thread, through the launcher; the words name
/// `result`, the file that the job writes, which is removed before. Output goes to `result`.log.
/// `environment` stands before the command ("NAME=value "). False unless all ranks came to a good end.
inline bool run_job(const std::string& self, std::size_t ranks, const std::string& words,
                    const std::string& result, const std::string& environment = "") {
  std::remove(result.c_str());
  const std::string command =
      fmt::format("{}OMP_NUM_THREADS=1 KRAMA_QUIET=1 '{}' -n {} '{}' {} >'{}.log' 2>&1",
                  environment, KRAMA_LAUNCH, ranks, self, words, result);
  return std::system(command.c_str()) == 0;
}

}  // namespace krama::bench
