// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/core/error.hpp>

namespace krama {

/// Every rank's numbers, by rank, the same bits everywhere; ranks may give different counts. For
/// agreements, in which few ranks have more to say than the others. Collective over comm; waits.
template <class Comm>
std::vector<std::vector<double>> gather_numbers(Comm& comm, std::span<const double> mine,
                                                std::string_view what) {
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size_bytes());
  std::vector<std::vector<double>> all;
  for (const auto& text : comm.gather_text(bytes, what)) {
    KRAMA_EXPECTS(text.size() % sizeof(double) == 0, "\"{}\": {} bytes are no numbers", what,
                  text.size());
    auto& numbers = all.emplace_back(text.size() / sizeof(double));
    if (!text.empty()) std::memcpy(numbers.data(), text.data(), text.size());
  }
  return all;
}

}  // namespace krama
