// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/testing/emulated_speed.hpp>
#include <krama/train/checkpoint.hpp>

#include <catch2/catch_all.hpp>

#include "train/shared_folder.hpp"
#include "train/train_test.hpp"

using namespace train_test;
using Catch::Matchers::ContainsSubstring;
using krama::plan::ShareChange;
using krama::plan::Shares;
using krama::testing::EmulatedSpeed;

namespace {

constexpr std::int64_t share_batch = 24;

/// Rank r needs (r + 1) units a sample: the first is the fastest.
krama::train::TrainerOptions share_options(const krama::MpiComm& world, std::int64_t steps) {
  const EmulatedSpeed speed(0.0005 * (world.rank() + 1));
  return {.global_batch = share_batch,
          .steps = steps,
          .seed = 9,
          .fingerprint_every = 1,
          .executor = {.micro_batch = 5, .bucket_elements = 256, .after_backward = speed}};
}

}  // namespace

TEST_CASE("shares: auto is the default; fast ranks get more, the sum stays, replicas agree",
          "[train]") {
  auto world = krama::MpiComm::world();
  auto o = share_options(world, 12);
  std::vector<ShareChange> told;
  o.on_shares = [&](const ShareChange& c) { told.push_back(c); };
  Setup<double, krama::MpiComm> s(world, o);
  const auto start = s.trainer.shares().shares();
  Shares last = start;
  s.trainer.fit(points(100), [&](const krama::train::StepReport& r) {
    CHECK(std::accumulate(r.samples.begin(), r.samples.end(), std::int64_t{0}) == share_batch);
    CHECK(r.outcome.rank_seconds.size() == r.samples.size());
    last = r.samples;
    return true;
  });
  const auto ranks = static_cast<std::size_t>(world.size());
  CHECK(start == krama::plan::equal_shares(share_batch, ranks, {}));
  if (ranks > 1) {
    CHECK(last.front() > last.back());
    CHECK(last.back() >= 1);
  }
  const auto all = world.gather_text(krama::plan::describe(last), "last shares");
  for (const auto& text : all) CHECK(text == all.front());
  // One line at the start and one at every change, on rank 0; every change is in the log of all.
  const auto& log = s.trainer.shares().log().changes();
  if (world.rank() == 0 && ranks > 1) {
    REQUIRE(told.size() == log.size());
    for (std::size_t i = 0; i < log.size(); ++i) {
      CHECK(told[i].step == log[i].step);
      CHECK(told[i].after == log[i].after);
      CHECK(told[i].before == log[i].before);
      CHECK_FALSE(told[i].reason.empty());
    }
  } else {
    CHECK(told.empty());
  }

  // And it is the same training.
  auto alone_options = share_options(world, 12);
  alone_options.executor.micro_batch = share_batch;
  alone_options.executor.after_backward = {};
  Setup<double, krama::SelfComm> alone(krama::SelfComm("alone"), alone_options);
  alone.trainer.fit(points(100));
  const auto wanted = alone.values();
  const auto found = s.values();
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(found[i] - wanted[i]));
  }
  CHECK(largest < 1e-9);
}

TEST_CASE("shares: two agreements a step carry them, and nothing else", "[train]") {
  auto world = krama::MpiComm::world();
  auto o = share_options(world, 20);
  o.fingerprint_every = 0;
  Setup<float, krama::MpiComm> s(world, o);
  std::vector<std::int64_t> calls;
  s.trainer.fit(points(100), [&](const krama::train::StepReport&) {
    calls.push_back(s.trainer.comm().traffic().control_calls);
    return true;
  });
  if (world.size() > 1) CHECK(s.trainer.shares().log().changes().size() > 1);
  for (std::size_t i = 2; i < calls.size(); ++i) CHECK(calls[i] - calls[i - 1] == 2);
}

TEST_CASE("shares: a checkpoint holds the log; a replay computes the same bits", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto whole_file = folder.path() / "whole.safetensors";
  const auto part_file = folder.path() / "part.safetensors";
  const auto data = points(100);
  Setup<float, krama::MpiComm> whole(world, share_options(world, 12));
  whole.trainer.fit(data);
  krama::train::save_checkpoint(whole.exec, whole.trainer, whole_file);

  // Now all ranks are as fast as each other: of their own, they would stay with equal shares.
  const auto replaying = [&](std::int64_t steps) {
    auto o = share_options(world, steps);
    o.executor.after_backward = {};
    krama::train::replay_shares(world, whole_file, o.shares);
    return o;
  };
  Setup<float, krama::MpiComm> again(world, replaying(12));
  again.trainer.fit(data);
  CHECK(same_bits(whole.values(), again.values()));

  Setup<float, krama::MpiComm> part(world, replaying(7));
  part.trainer.fit(data);
  krama::train::save_checkpoint(part.exec, part.trainer, part_file);
  Setup<float, krama::MpiComm> rest(world, replaying(12));
  krama::train::load_checkpoint(rest.exec, rest.trainer, part_file);
  CHECK(rest.trainer.shares().shares() == part.trainer.shares().shares());
  rest.trainer.fit(data);
  CHECK(same_bits(whole.values(), rest.values()));

  // Without a replay, a resumed run goes on with the shares that it had.
  Setup<float, krama::MpiComm> on(world, share_options(world, 14));
  krama::train::load_checkpoint(on.exec, on.trainer, whole_file);
  CHECK(on.trainer.shares().shares() == whole.trainer.shares().shares());
  CHECK(on.trainer.shares().log().text() == [&] {
    const auto all = world.gather_text(whole.trainer.shares().log().text(), "log of rank 0");
    return all.front();
  }());
  // One that was told otherwise does not.
  auto fixed = share_options(world, 14);
  fixed.shares.fixed.assign(static_cast<std::size_t>(world.size()), 1.0);
  Setup<float, krama::MpiComm> told(world, fixed);
  krama::train::load_checkpoint(told.exec, told.trainer, whole_file);
  CHECK(told.trainer.shares().shares() ==
        krama::plan::equal_shares(share_batch, static_cast<std::size_t>(world.size()), {}));
}

TEST_CASE("shares: what cannot be kept is refused before step 1, by name", "[train]") {
  auto world = krama::MpiComm::world();
  using S = Setup<float, krama::MpiComm>;
  const auto ranks = static_cast<std::size_t>(world.size());
  auto o = share_options(world, 3);
  o.shares.limits.minimum.assign(ranks, 1);
  o.shares.limits.maximum.assign(ranks, share_batch);
  o.shares.limits.maximum.back() = 0;
  CHECK_THROWS_WITH(S(world, o),
                    ContainsSubstring("rank " + std::to_string(ranks - 1) + " can hold 0 samples"));
  auto other = share_options(world, 3);
  other.shares.replay.add({0, {}, Shares(ranks, 1), "of another batch"});
  if (share_batch != static_cast<std::int64_t>(ranks)) {
    CHECK_THROWS_WITH(S(world, other), ContainsSubstring("this job has 24"));
  }
  auto crowd = share_options(world, 3);
  crowd.shares.replay.add({0, {}, Shares(ranks + 1, 1), "of more ranks"});
  CHECK_THROWS_WITH(S(world, crowd), ContainsSubstring("share log to replay"));
}

TEST_CASE("shares: fewer samples than ranks", "[train]") {
  auto world = krama::MpiComm::world();
  auto o = share_options(world, 8);
  o.global_batch = 2;
  Setup<float, krama::MpiComm> s(world, o);
  s.trainer.fit(points(100), [&](const krama::train::StepReport& r) {
    CHECK(std::accumulate(r.samples.begin(), r.samples.end(), std::int64_t{0}) == 2);
    return true;
  });
  CHECK(s.trainer.steps_done() == 8);
}

TEST_CASE("state shares: memory decides who holds how much of the optimizer's state", "[train]") {
  auto world = krama::MpiComm::world();
  auto o = share_options(world, 4);
  o.executor.after_backward = {};
  // The last rank has half of what each of the others has; no rank has enough for all.
  const std::int64_t unit = 4096;
  const bool half = world.size() > 1 && world.rank() == world.size() - 1;
  o.state_bytes = half ? unit : 2 * unit;
  Setup<float, krama::MpiComm> s(world, o);
  std::vector<double> held(static_cast<std::size_t>(world.size()), 0.0);
  held[static_cast<std::size_t>(world.rank())] =
      static_cast<double>(s.trainer.executor().shard().owned());
  world.sum_in_rank_order(held, "held");
  const double total = static_cast<double>(s.store.size());
  const double parts = world.size() > 1 ? 2.0 * world.size() - 1.0 : 1.0;
  for (std::size_t r = 0; r < held.size(); ++r) {
    const double mine = r + 1 == held.size() && held.size() > 1 ? 1.0 : std::min(2.0, parts);
    CHECK(std::abs(held[r] - total * mine / parts) <= 256.0);
  }
  s.trainer.fit(points(60));  // replicas are compared after every step

  o.state_bytes = 1;
  CHECK_THROWS_WITH((Setup<float, krama::MpiComm>(world, o)),
                    ContainsSubstring("the ranks can hold 0 together"));
}

TEST_CASE("share log: what is written is read back, what is damaged is refused", "[train]") {
  krama::train::ShareLog log;
  log.add({0, {}, {12, 12}, "equal, until speeds are measured"});
  log.add({4, {12, 12}, {16, 8}, "a step takes 1: not 2"});
  const auto read = krama::train::ShareLog::parse(log.text());
  REQUIRE(read.changes().size() == 2);
  CHECK(read.text() == log.text());
  CHECK(read.changes()[1].before == Shares{12, 12});
  CHECK(*read.at(3) == Shares{12, 12});
  CHECK(*read.at(4) == Shares{16, 8});
  CHECK(krama::train::ShareLog::parse("").at(0) == nullptr);
  for (const char* bad : {"x", "0", "0 ", "0 1:", "0 1:2", "0 1:-2 r", "-1 1:2 r",
                          "4 1:2 r\n3 1:2 r", "0 1;2 r", "0 99999999999999999999 r", "\n"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH(krama::train::ShareLog::parse(bad), ContainsSubstring("damaged"));
  }
}
