// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/self.hpp>
#include <krama/train/run_folder.hpp>

#include <catch2/catch_all.hpp>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace {
std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
}  // namespace

TEST_CASE("run folder: the trace holds every step, the picture the last one", "[train]") {
  using Catch::Matchers::ContainsSubstring;
  using krama::plan::Op;
  const auto path =
      std::filesystem::temp_directory_path() / ("krama-run-folder-" + std::to_string(::getpid()));
  krama::SelfComm comm("test");
  krama::train::RunFolder folder(comm, path, false);
  krama::TraceRecorder trace;
  trace.start(4);
  trace.add({Op::forward, 0, 0}, 0, 0);
  trace.add({Op::backward, 3, 0}, 1, 0);
  trace.add({Op::swap_in, 2, 0}, 1, 0);
  folder.write_trace(comm, trace);
  const auto events = text_of(path / "trace.json");
  const auto picture = text_of(path / "timeline.svg");
  CHECK_THAT(events, ContainsSubstring("forward 0") && ContainsSubstring("backward 3"));
  CHECK_THAT(picture, ContainsSubstring("backward 3") && ContainsSubstring("swap_in 2") &&
                          ContainsSubstring("rank 0 link") && !ContainsSubstring("forward 0"));
  std::filesystem::remove_all(path);
}
