// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/form_test.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace krama::test;
using krama::Form;
using krama::Partition;

TEST_CASE("eight ranks: all forms have the bits of their tree", "[comm]") {
  const Exec exec;
  for (const Form& form : forms(world().size())) {
    auto options = world().options();
    options.form = form;
    options.chunk_bytes = 2048;
    auto comm = world().duplicate("form", options);
    for (const std::int64_t n : {300, 20000}) {
      INFO(form.name() << ", " << n << " elements");
      auto v = values_of<float>(comm.rank(), n);
      comm.allreduce(exec, ref(v), "v " + std::to_string(n));
      CHECK(same_bits(v, sums_along<float>(form, Partition::even(n, comm.size()), 512)));
    }
  }
}

TEST_CASE("eight ranks: across the border goes what must, as counted", "[comm]") {
  const Exec exec;
  const int n = world().size();
  std::vector<int> group;
  for (int r = 0; r < n; ++r) group.push_back(r < n / 2 ? 0 : 1);
  const std::int64_t elements = std::int64_t{256} * n * 4;
  const auto crossed = [&](const Form& form) {
    auto options = world().options();
    options.form = form;
    options.chunk_bytes = 1024;
    auto comm = world().duplicate("border", options);
    auto v = values_of<float>(comm.rank(), elements);
    comm.allreduce(exec, ref(v), "v");  // compares signatures
    const auto before = comm.traffic();
    comm.allreduce(exec, ref(v), "v");
    const auto after = comm.traffic();
    std::int64_t bytes = 0;
    for (std::size_t to = 0; to < after.bytes_to.size(); ++to) {
      const std::int64_t had = to < before.bytes_to.size() ? before.bytes_to[to] : 0;
      if (group[to] != group[static_cast<std::size_t>(comm.rank())]) {
        bytes += after.bytes_to[to] - had;
      }
    }
    comm.sum(std::span(&bytes, 1), "bytes");
    return bytes;
  };
  // Up: each group's sum of the other's half. Down: each half's total to the other group.
  CHECK(crossed(Form::hierarchical(group)) == 2 * elements * 4);
  CHECK(crossed(Form::star()) == 2 * elements * 4 * n / 2);
}
