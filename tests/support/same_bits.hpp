// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace krama::test {

/// Elements [begin, end) of both are equal to the last bit: NaN equals itself, 0 is not -0.
template <class A>
bool same_bits(const std::vector<A>& a, const std::vector<A>& b, std::int64_t begin,
               std::int64_t end) {
  if (a.size() != b.size()) return false;
  return end == begin || std::memcmp(a.data() + begin, b.data() + begin,
                                     static_cast<std::size_t>(end - begin) * sizeof(A)) == 0;
}
template <class A>
bool same_bits(const std::vector<A>& a, const std::vector<A>& b) {
  return same_bits(a, b, 0, static_cast<std::int64_t>(a.size()));
}

}  // namespace krama::test
