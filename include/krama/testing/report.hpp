// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <string>
#include <vector>

namespace krama::testing {

/// What a check found. `ok()` and the list of failures, each a sentence.
struct Report {
  std::vector<std::string> failures;
  [[nodiscard]] bool ok() const { return failures.empty(); }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& f : failures) all += f + "\n";
    return all;
  }
};

}  // namespace krama::testing
