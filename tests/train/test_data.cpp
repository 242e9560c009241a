// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/train/data.hpp>
#include <krama/train/share_options.hpp>
#include <krama/train/sources.hpp>

#include <array>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <set>

using Catch::Matchers::ContainsSubstring;
using namespace krama::train;

namespace {

bool is_permutation_of_all(const std::vector<std::int64_t>& order) {
  const std::set<std::int64_t> seen(order.begin(), order.end());
  return seen.size() == order.size() && *seen.begin() == 0 &&
         *seen.rbegin() == static_cast<std::int64_t>(order.size()) - 1;
}

}  // namespace

TEST_CASE("sample order: every sample once an epoch, a function of seed and epoch", "[train]") {
  const auto first = sample_order(7, 0, 101);
  CHECK(is_permutation_of_all(first));
  CHECK(first == sample_order(7, 0, 101));
  CHECK(first != sample_order(7, 1, 101));
  CHECK(first != sample_order(8, 0, 101));
  CHECK(sample_order(7, 0, 1) == std::vector<std::int64_t>{0});
}

TEST_CASE("sample order: every place is as likely for every sample", "[train]") {
  constexpr int epochs = 5000;
  constexpr std::size_t samples = 5;
  std::array<std::array<int, samples>, samples> hits{};
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = sample_order(2, epoch, samples);
    for (std::size_t place = 0; place < samples; ++place) {
      ++hits[place][static_cast<std::size_t>(order[place])];
    }
  }
  // 1000 wanted; the standard deviation is 28.
  for (const auto& place : hits) {
    for (const int n : place) CHECK(std::abs(n - epochs / static_cast<int>(samples)) < 170);
  }
}

TEST_CASE("sample sequence: the same places hold the same samples however they are asked for",
          "[train]") {
  SampleSequence whole(3, 10);
  const auto all = whole.ids(0, 35);  // three epochs and a half
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(10 * epoch);
    CHECK(is_permutation_of_all({begin, begin + 10}));
  }
  // Two ranks that share batches of 7 see together what one rank sees alone.
  SampleSequence a(3, 10);
  SampleSequence b(3, 10);
  std::vector<std::int64_t> joined;
  for (std::int64_t step = 0; step < 5; ++step) {
    for (const auto id : a.ids(step * 7, 4)) joined.push_back(id);
    for (const auto id : b.ids(step * 7 + 4, 3)) joined.push_back(id);
  }
  CHECK(joined == all);
  CHECK_THROWS_WITH(SampleSequence(1, 0), ContainsSubstring("no sample"));
}

TEST_CASE("split of a batch: exact, fair, and nothing for a share of zero", "[train]") {
  CHECK(split_batch(16, std::vector<double>{3, 1}) == std::vector<std::int64_t>{12, 4});
  CHECK(split_batch(5, std::vector<double>{1, 1}) == std::vector<std::int64_t>{3, 2});
  CHECK(split_batch(1, std::vector<double>{1, 1, 1}) == std::vector<std::int64_t>{1, 0, 0});
  CHECK(split_batch(9, std::vector<double>{0, 2, 0}) == std::vector<std::int64_t>{0, 9, 0});
  for (std::uint64_t trial = 0; trial < 2000; ++trial) {
    const auto number = [trial](std::uint32_t stream, std::uint64_t i) {
      return static_cast<double>(krama::uniform({trial, stream, 0}, i));
    };
    const auto ranks = static_cast<std::size_t>(1 + number(0, 0) * 7);
    const auto batch = static_cast<std::int64_t>(number(0, 1) * 300);
    std::vector<double> shares;
    double total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const double share = r > 0 && number(1, r) < 0.2 ? 0.0 : 0.01 + number(2, r);
      shares.push_back(share);
      total += share;
    }
    const auto counts = split_batch(batch, shares);
    std::int64_t sum = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      sum += counts[r];
      const double ideal = static_cast<double>(batch) * shares[r] / total;
      CHECK(std::abs(static_cast<double>(counts[r]) - ideal) < 1.0 + 1e-9);
      if (shares[r] == 0) CHECK(counts[r] == 0);
    }
    CHECK(sum == batch);
  }
  CHECK_THROWS_WITH(split_batch(4, std::vector<double>{0, 0}), ContainsSubstring("zero"));
  CHECK_THROWS_WITH(split_batch(4, std::vector<double>{1, -1}), ContainsSubstring("-1"));
  CHECK_THROWS_AS(split_batch(4, std::vector<double>{std::nan("")}), krama::Error);
}

TEST_CASE("shares: what is accepted and what is refused", "[train]") {
  CHECK(parse_shares("equal", 3).fixed == std::vector<double>{1, 1, 1});
  CHECK(parse_shares("3:1", 2).fixed == std::vector<double>{3, 1});
  CHECK(parse_shares("0:0.5", 2).fixed == std::vector<double>{0, 0.5});
  CHECK(parse_shares("auto", 2).fixed.empty());
  CHECK(parse_shares("auto", 2).rule == ShareRule::model);
  CHECK(parse_shares("proportional", 2).fixed.empty());
  CHECK(parse_shares("proportional", 2).rule == ShareRule::proportional);
  CHECK_THROWS_WITH(parse_shares("3:1", 3), ContainsSubstring("2 numbers for 3 ranks"));
  for (const char* bad :
       {"", "3:", ":1", "3:x", "3;1", "-1:2", "0:0", "1e", "nan:1", "automatic"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_shares(bad, 2), krama::Error);
  }
}

TEST_CASE("text source: windows, and targets one byte later", "[train]") {
  const TextSource text({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, 3, "letters");
  CHECK(text.size() == 2);  // the eighth byte would start a third window without a target
  std::vector<std::int32_t> x(6);
  std::vector<std::int32_t> y(6);
  std::vector<float> w(6);
  text.fetch(std::vector<std::int64_t>{1, 0}, x, y, w);
  CHECK(x == std::vector<std::int32_t>{'d', 'e', 'f', 'a', 'b', 'c'});
  CHECK(y == std::vector<std::int32_t>{'e', 'f', 'g', 'b', 'c', 'd'});
  CHECK_THROWS_WITH(text.fetch(std::vector<std::int64_t>{2}, x, y, w),
                    ContainsSubstring("letters: sample 2"));
  CHECK_THROWS_WITH(TextSource({'a', 'b', 'c'}, 3, "short"), ContainsSubstring("short: 3 bytes"));
  CHECK_THROWS_AS(TextSource({'a', 'b'}, 0), krama::Error);
}

TEST_CASE("labelled rows: D05 a label out of range is named, whatever the build", "[train]") {
  const LabelledRows rows({1, 2, 3, 4, 5, 6}, {0, 2, 1}, 2, 2, "three rows");
  std::vector<float> x(2);
  std::vector<std::int32_t> y(1);
  std::vector<float> w(1);
  rows.fetch(std::vector<std::int64_t>{2}, x, y, w);
  CHECK(x == std::vector<float>{5, 6});
  CHECK(y.front() == 1);
  CHECK_THROWS_WITH(rows.fetch(std::vector<std::int64_t>{1}, x, y, w),
                    ContainsSubstring("three rows: label of sample 1 is 2; wanted 0 to 1"));
  CHECK_THROWS_WITH(rows.fetch(std::vector<std::int64_t>{3}, x, y, w),
                    ContainsSubstring("sample 3 does not exist"));
  CHECK_THROWS_AS(LabelledRows({1, 2, 3}, {0, 1}, 2, 2), krama::Error);
}

TEST_CASE("view source: a user's Views as they are", "[train]") {
  const Kokkos::View<double**, Kokkos::LayoutLeft, Kokkos::HostSpace> inputs("inputs", 3, 2);
  const Kokkos::View<int*, Kokkos::HostSpace> labels("labels", 3);
  for (int i = 0; i < 3; ++i) {
    inputs(i, 0) = i;
    inputs(i, 1) = 10 + i;
    labels(i) = i;
  }
  const ViewSource source(inputs, labels, 3);
  std::vector<double> x(4);
  std::vector<std::int32_t> y(2);
  std::vector<float> w(2);
  source.fetch(std::vector<std::int64_t>{2, 0}, x, y, w);
  CHECK(x == std::vector<double>{2, 12, 0, 10});
  CHECK(y == std::vector<std::int32_t>{2, 0});
  inputs(2, 0) = 7;  // no copy was made
  source.fetch(std::vector<std::int64_t>{2, 0}, x, y, w);
  CHECK(x.front() == 7);
  labels(0) = 3;
  CHECK_THROWS_WITH(source.fetch(std::vector<std::int64_t>{0}, x, y, w),
                    ContainsSubstring("View \"labels\": label of sample 0 is 3"));
  CHECK_THROWS_WITH(source.fetch(std::vector<std::int64_t>{3}, x, y, w),
                    ContainsSubstring("sample 3 does not exist"));
}
