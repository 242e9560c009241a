// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/buckets.hpp>
#include <krama/plan/overlap.hpp>
#include <krama/plan/plain.hpp>
#include <krama/plan/recompute.hpp>

#include <algorithm>
#include <catch2/catch_all.hpp>

using namespace krama::plan;

namespace {
std::int64_t count(const Program& p, Op op) {
  return std::count_if(p.begin(), p.end(), [&](const Instr& i) { return i.op == op; });
}
}  // namespace

TEST_CASE("plain step: order of a small program", "[plan]") {
  const Program want{
      {Op::zero_grads},      {Op::feed, -1, 0},    {Op::forward, 0, 0},   {Op::forward, 1, 0},
      {Op::loss, -1, 0},     {Op::backward, 1, 0}, {Op::backward, 0, 0},  {Op::reduce, 1},
      {Op::await_reduce, 1}, {Op::reduce, 0},      {Op::await_reduce, 0}, {Op::agree},
      {Op::update, 0},       {Op::update, 1},      {Op::gather, 0},       {Op::gather, 1}};
  CHECK(plain_step(2, 1, 2) == want);
}

TEST_CASE("plain step: micro-batches accumulate, the rest happens once", "[plan]") {
  const Program p = plain_step(3, 4, 2);
  CHECK(count(p, Op::forward) == 12);
  CHECK(count(p, Op::backward) == 12);
  CHECK(count(p, Op::loss) == 4);
  CHECK(count(p, Op::zero_grads) == 1);
  CHECK(count(p, Op::reduce) == 2);
  CHECK(count(p, Op::agree) == 1);
}

TEST_CASE("plain step: C01 a rank without samples still takes part", "[plan]") {
  const Program p = plain_step(3, 0, 2);
  CHECK(count(p, Op::forward) == 0);
  CHECK(count(p, Op::loss) == 0);
  CHECK(count(p, Op::reduce) == 2);
  CHECK(count(p, Op::agree) == 1);
  CHECK(count(p, Op::gather) == 2);
}

TEST_CASE("overlap: sums begin when their last block is done, and are awaited where they were",
          "[plan]") {
  // Bucket 0 holds the parameters of blocks 0 and 1, bucket 1 those of block 2, bucket 2 is shared
  // by the first and the last block.
  const Program p = with_overlap(plain_step(3, 2, 3), {0, 2, 0});
  const auto place = [&p](const Instr& i) { return std::find(p.begin(), p.end(), i) - p.begin(); };
  CHECK(p[static_cast<std::size_t>(place({Op::reduce, 1})) - 1] == Instr{Op::backward, 2, 1});
  CHECK(place({Op::reduce, 2}) == place({Op::backward, 0, 1}) + 1);
  CHECK(place({Op::reduce, 0}) == place({Op::backward, 0, 1}) + 2);
  for (int k = 0; k < 3; ++k) {
    CHECK(place({Op::await_reduce, k}) > place({Op::reduce, k}));
    CHECK(place({Op::await_reduce, k}) < place({Op::agree}));
  }
  CHECK(p.size() == plain_step(3, 2, 3).size());
  CHECK_THROWS_AS(with_overlap(plain_step(3, 1, 2), {0}), krama::Error);
}

TEST_CASE("overlap: C01 sums begin in the same order on a rank without samples", "[plan]") {
  const auto order = [](const Program& p) {
    std::vector<int> k;
    for (const auto& i : p) {
      if (i.op == Op::reduce) k.push_back(i.index);
    }
    return k;
  };
  const std::vector<int> last{2, 0, 1};
  const auto without = with_overlap(plain_step(3, 0, 3), last);
  CHECK(order(without) == std::vector<int>{0, 2, 1});
  CHECK(order(with_overlap(plain_step(3, 2, 3), last)) == order(without));
}

TEST_CASE("recompute: only the chosen blocks, just before their backward", "[plan]") {
  const Program p = with_recompute(plain_step(3, 2, 1), {false, true, false});
  CHECK(count(p, Op::recompute) == 2);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i].op != Op::recompute) continue;
    CHECK(p[i].index == 1);
    CHECK(p[i + 1] == Instr{Op::backward, 1, p[i].micro});
  }
  CHECK_THROWS_WITH(with_recompute(plain_step(3, 1, 1), {true}),
                    Catch::Matchers::ContainsSubstring("block 2"));
}

TEST_CASE("buckets: cover all, cut no tensor, reach the minimum", "[plan]") {
  const std::vector<std::int64_t> ends{256, 512, 2048, 2304, 4096, 4352};
  for (const std::int64_t minimum : {1, 256, 300, 1000, 4000, 100000}) {
    const auto buckets = group_buckets(ends, minimum);
    REQUIRE_FALSE(buckets.empty());
    std::int64_t at = 0;
    for (const auto& b : buckets) {
      CHECK(b.begin == at);
      CHECK(std::find(ends.begin(), ends.end(), b.end) != ends.end());
      if (buckets.size() > 1) CHECK(b.size() >= minimum);
      at = b.end;
    }
    CHECK(at == ends.back());
  }
  CHECK(group_buckets({}, 10).empty());
}
