// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// A rank whose memory runs out in the middle of a step: nothing has changed, all ranks know, and all can
// go on when there is memory again.

#include <krama/comm/mpi/communicator.hpp>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "program/problems.hpp"

using namespace program_test;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;

namespace {

/// The n-th allocation of tensors from now on fails, and no other; 0: none.
#ifdef KRAMA_TEST_GUARDED
void fail_at(std::int64_t n) { krama::testing::guarded::Arena::get().fail_at(n); }
#else
std::int64_t allocations_left = 0;
void fail_at(std::int64_t n) { allocations_left = n; }
#endif

}  // namespace

#ifndef KRAMA_TEST_GUARDED
/// What Kokkos takes its host memory from.
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (allocations_left > 0 && --allocations_left == 0) return nullptr;
  try {
    return ::operator new(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}
#endif

namespace {

template <class Model>
class Job {
 public:
  Job(krama::MpiComm comm, const Model& model, const Data& data)
      : comm_(std::move(comm)),
        data_(data),
        store_(same_store<D, float>(model)),
        executor_(exec_, model, store_, {}, {}, comm_,
                  {.micro_batch = 3, .clip_norm = 0.5, .bucket_elements = 700}) {
    // As if it had trained: moments that a step would change.
    for (int s = 0; s < 2; ++s) {
      std::vector<float> moments;
      const auto there = executor_.state(s);
      for (std::int64_t i = 0; i < there.size(); ++i) {
        moments.push_back(static_cast<float>(u(30, static_cast<std::size_t>(i))));
      }
      krama::upload(exec_, there, std::span<const float>(moments));
    }
    executor_.set_updates(7);
  }

  void step(std::uint32_t number) {
    const std::int64_t share = data_.samples / comm_.size();
    const std::int64_t first = share * comm_.rank();
    executor_.step(number, 1, 0.01, first, share, feed(exec_, data_, first, share, 3));
  }
  /// Parameters, moments and the number of updates.
  [[nodiscard]] std::vector<float> all() const {
    auto v = krama::download(exec_, store_.values());
    for (int s = 0; s < 2; ++s) {
      const auto more = krama::download(exec_, executor_.state(s));
      v.insert(v.end(), more.begin(), more.end());
    }
    v.push_back(static_cast<float>(executor_.updates()));
    return v;
  }

 private:
  krama::exec_of<D> exec_;
  krama::MpiComm comm_;
  const Data& data_;
  krama::ParamStore<float, krama::mem_of<D>> store_;
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> executor_;
};

/// What this rank's call threw; empty: nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("out of memory: the k-th allocation of a step fails, for every k", "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Gpt::data();
  const auto model = Gpt::model<D, float>();
  Job whole(world.duplicate("whole"), model, data);
  whole.step(0);
  whole.step(1);
  const auto wanted = whole.all();
  for (const int culprit : {0, world.size() - 1}) {
    const bool mine = world.rank() == culprit;
    std::int64_t k = 1;
    for (; k < 100; ++k) {
      INFO("allocation " << k << " of rank " << culprit);
      Job job(world.duplicate("job"), model, data);
      const auto before = job.all();
      fail_at(mine ? k : 0);
      const std::string error = error_of([&] { job.step(0); });
      fail_at(0);
      const auto errors = world.gather_text(error, "errors");
      for (const auto& theirs : errors) CHECK(theirs == error);
      if (error.empty()) {
        job.step(1);
        CHECK(same_bits(job.all(), wanted));
        break;
      }
      CHECK_THAT(error, ContainsSubstring("failed on rank " + std::to_string(culprit) + ",") &&
                            ContainsSubstring("out of memory: \"krama::"));
      CHECK(same_bits(job.all(), before));
      // There is memory again.
      job.step(0);
      job.step(1);
      CHECK(same_bits(job.all(), wanted));
    }
    CHECK(k > 1);  // something was allocated
    CHECK(k < 100);
  }
}

TEST_CASE("out of memory: where layers speak to other ranks all get the same error", "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Normed::data();
  const auto model = Normed::model<D, float>();
  const int culprit = world.size() - 1;
  Job job(world.duplicate("norm"), model, data);
  const auto before = job.all();
  fail_at(world.rank() == culprit ? 1 : 0);
  const std::string error = error_of([&] { job.step(0); });
  fail_at(0);
  for (const auto& theirs : world.gather_text(error, "errors")) CHECK(theirs == error);
  if (world.size() > 1) {
    CHECK_THAT(error,
               ContainsSubstring("rank " + std::to_string(culprit) + " cannot go on: out of"));
  } else {
    CHECK_THAT(error, ContainsSubstring("out of memory"));
  }
  CHECK(same_bits(job.all(), before));
}

TEST_CASE("step: a feed that throws on one rank ends the step on all", "[program]") {
  auto world = krama::MpiComm::world();
  if (world.size() == 1) SKIP("one rank throws its own exception");
  const krama::exec_of<D> exec;
  const auto data = Mlp::data();
  const auto model = Mlp::model<D, float>();
  auto store = same_store<D, float>(model);
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> executor(
      exec, model, store, {}, {}, world, {.micro_batch = 8});
  const auto before = krama::download(exec, store.values());
  const auto good = feed(exec, data, 0, 16, 8);
  const std::string error = error_of([&] {
    executor.step(0, 1, 0.1, 0, 16, [&](int micro, const auto& to) {
      if (world.rank() == 1 && micro == 1) throw std::runtime_error("no such file: samples");
      good(micro, to);
    });
  });
  CHECK(error ==
        "the step failed on rank 1, parameters are as before it; rank 1: no such file: "
        "samples");
  CHECK(krama::download(exec, store.values()) == before);
  executor.step(0, 1, 0.1, 0, 16, good);
  CHECK(executor.updates() == 1);
}
