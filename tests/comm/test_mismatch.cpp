// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;

namespace {
/// The error of a call that must fail, and that all ranks got the same.
template <class F>
std::string common_error(krama::MpiComm& comm, F&& f) {
  std::string text = "no error";
  try {
    f();
  } catch (const krama::Error& e) {
    text = e.what();
  }
  for (const auto& theirs : comm.gather_text(text, "errors")) CHECK(theirs == text);
  return text;
}
}  // namespace

TEST_CASE("C04: ranks with different shapes get the same error, which names both", "[comm]") {
  if (world().size() < 2) return;
  const Exec exec;
  auto comm = world().duplicate("C04");
  std::vector<float> v(comm.rank() == 1 ? 200 : 100);
  for (int again = 0; again < 2; ++again) {
    const auto text = common_error(comm, [&] { comm.allreduce(exec, ref(v), "decoder.weight"); });
    CHECK_THAT(text, ContainsSubstring("\"decoder.weight\" of 100 f32 elements") &&
                         ContainsSubstring("rank 1: allreduce \"decoder.weight\" of 200 f32") &&
                         ContainsSubstring("\"C04\""));
  }
  // The communicator is as good as before.
  std::vector<float> w(300, 1.0F);
  comm.allreduce(exec, ref(w), "w");
  CHECK(w == std::vector<float>(300, static_cast<float>(comm.size())));
}

TEST_CASE("C04: different element types, names, roots and partitions", "[comm]") {
  if (world().size() < 2) return;
  const Exec exec;
  auto comm = world().duplicate("C04");
  const bool odd = comm.rank() == 1;
  std::vector<float> f(64);
  std::vector<double> d(64);
  CHECK_THAT(
      common_error(
          comm,
          [&] { odd ? comm.allreduce(exec, ref(d), "x") : comm.allreduce(exec, ref(f), "x"); }),
      ContainsSubstring("f32") && ContainsSubstring("f64"));
  CHECK_THAT(common_error(comm, [&] { comm.allreduce(exec, ref(f), odd ? "b" : "a"); }),
             ContainsSubstring("\"a\"") && ContainsSubstring("\"b\""));
  CHECK_THAT(common_error(comm, [&] { comm.broadcast(exec, ref(f), odd ? 0 : 1, "r"); }),
             ContainsSubstring("from rank 0") && ContainsSubstring("from rank 1"));
  const auto weights = std::vector<double>(static_cast<std::size_t>(comm.size()), 1.0);
  CHECK_THAT(common_error(comm,
                          [&] {
                            comm.reduce_scatter(
                                exec, ref(f),
                                krama::Partition::by_weight(64, weights, odd ? 1 : 64), "p");
                          }),
             ContainsSubstring("partition"));
}

TEST_CASE("C05: another operation on one rank", "[comm]") {
  if (world().size() < 2) return;
  const Exec exec;
  auto comm = world().duplicate("C05");
  std::vector<float> v(64);
  CHECK_THAT(common_error(comm,
                          [&] {
                            if (comm.rank() == 1) {
                              comm.barrier("end of step");
                            } else {
                              comm.allreduce(exec, ref(v), "layer 3");
                            }
                          }),
             ContainsSubstring("rank 1: barrier \"end of step\"") &&
                 ContainsSubstring("allreduce \"layer 3\""));
}

TEST_CASE("C05: a rank that skipped an earlier call is found by the next exchange", "[comm]") {
  if (world().size() < 2) return;
  const Exec exec;
  auto comm = world().duplicate("C05");
  std::vector<float> v(1);
  comm.broadcast(exec, ref(v), 0, "small");
  // The root of a broadcast may be ahead: it sends and goes on.
  if (comm.rank() == 0) comm.broadcast(exec, ref(v), 0, "small");
  std::string text = "no error";
  try {
    comm.barrier("step");
  } catch (const krama::Error& e) {
    text = e.what();
  }
  CHECK_THAT(text, ContainsSubstring("rank 0: barrier \"step\" after 2 calls") &&
                       ContainsSubstring("after 1 calls"));
}

TEST_CASE("a stalled wait names operation, tensor and missing ranks", "[comm]") {
  if (world().size() < 2) return;
  const Exec exec;
  auto options = world().options();
  options.watchdog_seconds = 0.3;
  options.on_stall = [](const std::string& report) { throw krama::Error(report); };
  auto comm = world().duplicate("stalling", options);
  std::vector<float> v(64);
  std::string text;
  if (comm.rank() != 1) {
    try {
      comm.allreduce(exec, ref(v), "layer 3");
    } catch (const krama::Error& e) {
      text = e.what();
    }
    CHECK_THAT(text, ContainsSubstring("allreduce \"layer 3\" on communicator \"stalling\"") &&
                         ContainsSubstring("nothing more came from rank") &&
                         ContainsSubstring("1"));
    // Messages were under way: the communicator says so instead of going wrong.
    CHECK_THROWS_AS(comm.barrier("after"), krama::Error);
  }
  world().barrier("after the stall");
}
