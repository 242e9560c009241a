// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/plan/overlap.hpp>
#include <krama/plan/plain.hpp>
#include <krama/plan/recompute.hpp>
#include <krama/plan/window.hpp>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <map>
#include <random>

using namespace krama::plan;

namespace {

WindowSizes random_sizes(std::mt19937& random, int blocks) {
  WindowSizes s;
  for (int b = 0; b < blocks; ++b) {
    s.weights.push_back(random() % 5 == 0 ? 0 : 64 * static_cast<std::int64_t>(1 + random() % 9));
    s.gradients.push_back(random() % 4 == 0 ? 0 : s.weights.back());
    s.rivals.emplace_back();
  }
  return s;
}
/// The first and the last block share a parameter.
void tie(WindowSizes& s) {
  if (s.gradients.front() == 0 || s.gradients.back() == 0 || s.gradients.size() < 2) return;
  s.rivals.front().push_back(static_cast<int>(s.gradients.size()) - 1);
  s.rivals.back().push_back(0);
}

/// What a window does with a program, in numbers: gradients are counters, one for each group of
/// rivals, and every backward adds one to what is in near memory. Everything that must not be is
/// REQUIREd not to be.
class Window {
 public:
  Window(const WindowSizes& sizes, std::int64_t bytes) : sizes_(sizes), slots_(bytes) {}

  void run(const Program& p) {
    for (const auto& i : p) step(i);
    CHECK(weights_.empty());
    CHECK(near_.empty());
  }
  /// Added to the counter that block b adds to, and arrived in far memory.
  std::int64_t far(int b) { return far_[group(b)]; }
  int fetches = 0;
  int stalls = 0;  ///< blocks that waited for what was asked for just before

 private:
  struct There {
    std::int64_t place = 0;
    bool waited = false;
  };
  [[nodiscard]] int group(int b) const {
    const auto& rivals = sizes_.rivals[static_cast<std::size_t>(b)];
    return rivals.empty() ? b : std::min(b, rivals.front());
  }
  std::int64_t take(std::int64_t bytes) {
    const auto at = slots_.take(bytes);
    REQUIRE(at >= 0);
    return at;
  }
  void step(const Instr& i) {
    const int b = i.index;
    const auto k = static_cast<std::size_t>(std::max(b, 0));
    switch (i.op) {
      case Op::fetch_weights:
        REQUIRE(weights_.count(b) == 0);
        weights_[b].place = take(sizes_.weights[k]);
        ++fetches;
        break;
      case Op::fetch_grads:
        REQUIRE(near_.count(b) == 0);
        near_[b].place = take(sizes_.gradients[k]);
        sum_[b] = far_[group(b)];
        break;
      case Op::await_fetch:
        if (last_.op == Op::fetch_weights || last_.op == Op::fetch_grads) ++stalls;
        if (weights_.count(b) > 0) weights_[b].waited = true;
        if (near_.count(b) > 0) near_[b].waited = true;
        break;
      case Op::drop_weights:
        REQUIRE(weights_.count(b) == 1);
        slots_.give_back(weights_[b].place);
        weights_.erase(b);
        break;
      case Op::send_grads:
        REQUIRE(near_.count(b) == 1);
        slots_.give_back(near_[b].place);
        near_.erase(b);
        far_[group(b)] = sum_[b];
        under_way_[b] = true;
        break;
      case Op::await_send:
        // The link does things in order: what left before has arrived, too.
        under_way_.clear();
        break;
      case Op::forward:
      case Op::recompute:
      case Op::backward:
        if (sizes_.weights[k] > 0) REQUIRE((weights_.count(b) == 1 && weights_[b].waited));
        if (i.op == Op::backward && sizes_.gradients[k] > 0) {
          REQUIRE((near_.count(b) == 1 && near_[b].waited));
          ++sum_[b];
        }
        break;
      case Op::reduce:
        // Bucket k holds what block k and those behind it add.
        for (int c = b; c < static_cast<int>(sizes_.weights.size()); ++c) {
          REQUIRE(under_way_.count(c) == 0);
          REQUIRE(near_.count(c) == 0);
        }
        break;
      default:
        break;
    }
    last_ = i;
  }

  WindowSizes sizes_;
  Slots slots_;
  std::map<int, There> weights_, near_;
  std::map<int, std::int64_t> sum_, far_;
  std::map<int, bool> under_way_;
  Instr last_;
};

std::vector<int> each_block(int blocks) {
  std::vector<int> last;
  for (int b = 0; b < blocks; ++b) last.push_back(b);
  return last;
}

}  // namespace

TEST_CASE("window: everything is there when it is used, and every gradient arrives", "[plan]") {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const int n = 1 + static_cast<int>(random() % 9);
    const int micro_batches = static_cast<int>(random() % 4);
    auto sizes = random_sizes(random, n);
    const bool tied = random() % 2 == 0;
    if (tied) tie(sizes);
    Program p = plain_step(n, micro_batches, n);
    // The sums begin a block later than the gradients are complete: they leave meanwhile.
    auto last = each_block(n);
    if (sizes.rivals.front().size() == 1) last.back() = 0;
    auto later = last;
    for (int& b : later) b -= static_cast<int>(random() % 2);
    if (random() % 3 > 0) p = with_overlap(p, later);
    if (random() % 2 == 0) {
      std::vector<bool> again;
      for (int b = 0; b < n; ++b) again.push_back(random() % 2 == 0);
      p = with_recompute(p, again);
    }
    const std::int64_t room = sizes.smallest() + 64 * static_cast<std::int64_t>(random() % 60);
    Window window(sizes, room);
    const Program with = with_window(p, sizes, room, last);
    window.run(with);
    for (int b = 0; b < n; ++b) {
      const auto k = static_cast<std::size_t>(b);
      const int times = static_cast<int>(sizes.rivals[k].size()) + 1;
      if (sizes.gradients[k] > 0) CHECK(window.far(b) == micro_batches * times);
    }
    // Nothing else has changed.
    Program rest;
    std::copy_if(with.begin(), with.end(), std::back_inserter(rest),
                 [](const Instr& i) { return i.op < Op::fetch_weights; });
    CHECK(rest == p);
  }
}

TEST_CASE("window: with room for a few blocks nobody waits for what is asked for at once",
          "[plan]") {
  const int n = 10;
  WindowSizes sizes{std::vector<std::int64_t>(10, 640), std::vector<std::int64_t>(10, 640),
                    std::vector<std::vector<int>>(10)};
  const Program p = plain_step(n, 2, n);
  const auto run = [&](std::int64_t room) {
    Window w(sizes, room);
    w.run(with_window(p, sizes, room, each_block(n)));
    return w;
  };
  // Weights and gradients of one block: in backward nothing comes beside the work; in forward the
  // next block's weights do, in the room of the gradients.
  const auto least = run(2 * 640);
  CHECK(least.stalls == 2 * (n - 1));
  CHECK(least.fetches <= 4 * n);
  // Of two blocks: one comes while the other works, in backward too.
  const auto some = run(4 * 640);
  CHECK(some.stalls == 0);
  CHECK(some.fetches < least.fetches);
  // Of all blocks: each is fetched once.
  const auto all = run(20 * 640);
  CHECK(all.stalls == 0);
  CHECK(all.fetches == n);
}

TEST_CASE("window: less than the largest block needs is refused", "[plan]") {
  WindowSizes sizes{{64, 128}, {64, 128}, {{}, {}}};
  CHECK(sizes.smallest() == 256);
  CHECK_THROWS_WITH(with_window(plain_step(2, 1, 1), sizes, 255, {0}),
                    Catch::Matchers::ContainsSubstring("256 bytes are needed, 255"));
}

TEST_CASE("window: places are the lowest that are free", "[plan]") {
  Slots slots(100);
  CHECK(slots.take(40) == 0);
  CHECK(slots.take(30) == 40);
  CHECK(slots.take(31) == -1);
  slots.give_back(0);
  CHECK(slots.take(30) == 0);
  CHECK(slots.take(30) == 70);
  CHECK(slots.take(11) == -1);
  CHECK(slots.take(10) == 30);
}
