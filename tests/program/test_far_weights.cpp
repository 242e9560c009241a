// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Parameters, gradients and moments in far memory: the bits of a near store, within a window.

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/plan/budget.hpp>

#include <algorithm>
#include <array>
#include <catch2/catch_all.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "program/problems.hpp"

using namespace program_test;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using R = krama::plan::Residency;

namespace {

constexpr bool on_host = krama::SwapLink<D>::host_memory;

/// Many blocks, so that little of it is needed at a time.
struct Deep {
  static Data data() { return Mlp::data(); }
  template <class D, class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::mlp<D, T>({{20, 48, 48, 48, 48, 48, 48, 48, 48, 48, 6}});
  }
};
/// The first and the last block share a parameter.
struct Text {
  static Data data() { return Gpt::data(); }
  template <class D, class T>
  static krama::nn::Model<D, T> model() {
    return krama::models::gpt<D, T>(
        {.vocabulary = 17, .context = 12, .features = 16, .layers = 5, .heads = 2, .dropout = 0.1});
  }
};
/// Buffers. Micro-batches of one sample have no variance: shares of up to four ranks leave none.
struct Synchronised {
  static Data data() { return mlp_data(24, 20, 6); }
  template <class D, class T>
  static krama::nn::Model<D, T> model() {
    return Normed::model<D, T>(true);
  }
};
struct NotSynchronised {
  static Data data() { return Synchronised::data(); }
  template <class D, class T>
  static krama::nn::Model<D, T> model() {
    return Normed::model<D, T>(false);
  }
};

/// A model in training; in far memory if `far` says so.
template <class T, class Comm>
class FarJob {
 public:
  using Store = krama::ParamStore<T, krama::mem_of<D>>;
  FarJob(Comm comm, const krama::nn::Model<D, T>& model, const Data& data,
         krama::ExecutorOptions options, const std::optional<krama::TierOptions>& far)
      : comm_(std::move(comm)),
        data_(data),
        micro_batch_(options.micro_batch),
        store_(model.make_store(exec_, 3, far)),
        executor_(exec_, model, store_, {}, {}, comm_, options) {}

  krama::StepOutcome step(std::uint32_t number) {
    return executor_.step(number, 1, 0.01, first(), share(), feed_mine());
  }
  krama::StepOutcome evaluate() { return executor_.evaluate(1, first(), share(), feed_mine()); }
  std::vector<T> predict() {
    const auto y = executor_.predict(std::min(micro_batch_, share()), feed_mine());
    return krama::download(exec_, y.template as<T, 1>());
  }
  /// Parameters, buffers, moments and the number of updates.
  [[nodiscard]] auto all() const {
    auto v = krama::download(exec_, store_.values());
    for (int s = 0; s < 2; ++s) {
      const auto more = krama::download(exec_, executor_.state(s));
      v.insert(v.end(), more.begin(), more.end());
    }
    v.push_back(static_cast<krama::accum_t<T>>(executor_.updates()));
    return v;
  }
  [[nodiscard]] const auto& executor() const { return executor_; }
  [[nodiscard]] const Store& store() const { return store_; }

 private:
  [[nodiscard]] std::int64_t share() const { return data_.samples / comm_.size(); }
  [[nodiscard]] std::int64_t first() const { return share() * comm_.rank(); }
  [[nodiscard]] auto feed_mine() { return feed(exec_, data_, first(), share(), micro_batch_); }

  krama::exec_of<D> exec_;
  Comm comm_;
  const Data& data_;
  std::int64_t micro_batch_;
  Store store_;
  krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::AdamW, Comm> executor_;
};

template <class T>
std::int64_t smallest(const krama::nn::Model<D, T>& model) {
  const krama::exec_of<D> exec;
  return krama::WeightWindow<D, T>::smallest(model, model.make_store(exec, 3));
}

/// Each block swapped, recomputed or kept in turn.
template <class T>
krama::plan::Offload offload_of(const krama::nn::Model<D, T>& model, std::int64_t micro_batch) {
  auto costs = krama::plan::byte_costs(krama::step_sizes(model, micro_batch));
  costs.budget = 2 * costs.saved_bytes();
  std::vector<R> what;
  for (int b = 0; b < model.block_count(); ++b) {
    const std::array all{R::swap, R::recompute, R::keep, R::swap_input};
    what.push_back(all[static_cast<std::size_t>(b) % all.size()]);
  }
  return krama::plan::Offload::of(costs, what);
}

/// Trains near and far, and compares.
template <class Problem, class T>
void compare(const std::string& what, krama::ExecutorOptions options) {
  auto world = krama::MpiComm::world();
  const auto data = Problem::data();
  const auto model = Problem::template model<D, T>();
  FarJob<T, krama::MpiComm> near(world.duplicate("near"), model, data, options, {});
  for (std::uint32_t s = 0; s < 3; ++s) near.step(s);
  const std::int64_t least = smallest(model);
  for (const int part : {0, 1, 4, 100}) {
    CAPTURE(what, part);
    // Only every other rank the second time.
    const bool far = on_host && (part != 1 || world.rank() % 2 == 0);
    options.weights_budget = far ? least + least * part / 2 : 0;
    if (part == 4) options.swap.link = {.latency = 1e-4, .out_bandwidth = 2e8, .in_bandwidth = 1e8};
    FarJob<T, krama::MpiComm> job(world.duplicate("far"), model, data, options,
                                  far ? std::optional(krama::TierOptions{}) : std::nullopt);
    for (std::uint32_t s = 0; s < 3; ++s) job.step(s);
    CHECK(same_bits(near.all(), job.all()));
    CHECK(near.evaluate().loss_sum == job.evaluate().loss_sum);
    CHECK(same_bits(near.predict(), job.predict()));
    if (!far) continue;
    CHECK(job.executor().window()->bytes() <= options.weights_budget);
    CHECK(job.executor().window()->moved() > 0);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("far weights: the bits of weights in near memory", "[program]", Mlp, Deep, Text,
                   NotSynchronised) {
  const auto model = TestType::template model<D, float>();
  const auto blocks = static_cast<std::size_t>(model.block_count());
  compare<TestType, float>("plain", {.micro_batch = 3, .bucket_elements = 700});
  compare<TestType, float>("no overlap", {.micro_batch = 100, .clip_norm = 0.1, .overlap = false});
  compare<TestType, float>("recompute", {.micro_batch = 3,
                                         .clip_norm = 0.1,
                                         .bucket_elements = 700,
                                         .recompute = std::vector<bool>(blocks, true)});
  compare<TestType, float>(
      "offload", {.micro_batch = 2, .bucket_elements = 2000, .offload = offload_of(model, 2)});
}

TEST_CASE("far weights: where a working copy is rounded, it is what travels", "[program]") {
  compare<Text, krama::bf16>("bf16", {.micro_batch = 3, .bucket_elements = 700});
}

TEST_CASE("far weights: layers that speak to other ranks", "[program]") {
  compare<Synchronised, float>("synchronised", {.micro_batch = 4, .bucket_elements = 700});
  compare<Synchronised, float>("at once", {.micro_batch = 24, .clip_norm = 0.1});
}

TEST_CASE("far weights: a model of four times the budget and more trains", "[program]") {
  if (!on_host) SKIP("devices keep parameters in near memory");
  auto world = krama::MpiComm::world();
  const auto data = Deep::data();
  const auto model = Deep::model<D, float>();
  krama::ExecutorOptions options{.micro_batch = 4, .clip_norm = 0.5, .bucket_elements = 4000};
  FarJob<float, krama::MpiComm> near(world.duplicate("near"), model, data, options, {});
  // Values, gradients and two moments.
  const std::int64_t bytes = near.store().size() * 4 * std::int64_t{sizeof(float)};
  options.weights_budget = bytes / 5;
  FarJob<float, krama::MpiComm> far(world.duplicate("far"), model, data, options,
                                    krama::TierOptions{.folder = "/tmp"});
  for (std::uint32_t s = 0; s < 5; ++s) {
    const auto wanted = near.step(s);
    const auto found = far.step(s);
    CHECK(wanted.loss_sum == found.loss_sum);
    CHECK(wanted.grad_norm == found.grad_norm);
  }
  CHECK(same_bits(near.all(), far.all()));
  CHECK(4 * far.executor().window()->bytes() <= bytes);
}

TEST_CASE("far weights: what cannot work is refused before step 1", "[program]") {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = Deep::data();
  const auto model = Deep::model<D, float>();
  const auto job = [&](std::int64_t budget, const std::optional<krama::TierOptions>& far) {
    return FarJob<float, krama::MpiComm>(world, model, data, {.weights_budget = budget}, far);
  };
  CHECK_THROWS_WITH(job(1000, {}), ContainsSubstring("near memory"));
  if (!on_host) {
    CHECK_THROWS_WITH(job(1 << 20, krama::TierOptions{}), ContainsSubstring("only hosts"));
    return;
  }
  const std::int64_t least = smallest(model);
  for (const std::int64_t budget : {std::int64_t{0}, least - 1}) {
    try {
      job(budget, krama::TierOptions{});
      CHECK(false);
    } catch (const krama::OutOfMemory& e) {
      CHECK(e.bytes() == least);
      CHECK_THAT(e.what(), ContainsSubstring(std::to_string(least)) &&
                               ContainsSubstring(std::to_string(budget)));
    }
  }
  job(least, krama::TierOptions{}).step(0);
  krama::TierOptions full;
  full.calls.reserve = [](int, off_t, off_t) { return ENOSPC; };
  CHECK_THROWS_WITH(job(least, full), ContainsSubstring("free some space"));
  CHECK_THROWS_WITH(job(least, krama::TierOptions{.folder = "/nowhere/at/all"}),
                    ContainsSubstring("/nowhere/at/all"));
}

namespace {
// A far tier that fails at the n-th write or read.
int calls_left = 1 << 30;
ssize_t failing_write(int fd, const void* data, std::size_t bytes, off_t at) {
  if (calls_left-- > 0) return ::pwrite(fd, data, bytes, at);
  errno = EIO;
  return -1;
}
ssize_t failing_read(int fd, void* data, std::size_t bytes, off_t at) {
  if (calls_left-- > 0) return ::pread(fd, data, bytes, at);
  errno = EIO;
  return -1;
}
}  // namespace

TEST_CASE("far weights: a far tier that fails in mid-step changes nothing, and all can go on",
          "[program]") {
  auto world = krama::MpiComm::world();
  const int culprit = world.size() - 1;
  const bool mine = world.rank() == culprit;
  // The last rank has far memory unless it is a device.
  if (world.gather_text(on_host ? "host" : "device", "devices").back() != "host") return;
  const auto data = Text::data();
  const auto model = Text::model<D, float>();
  krama::ExecutorOptions options{.micro_batch = 3, .clip_norm = 0.5, .bucket_elements = 700};
  FarJob<float, krama::MpiComm> whole(world.duplicate("whole"), model, data, options, {});
  for (std::uint32_t s = 0; s < 3; ++s) whole.step(s);
  if (on_host) options.weights_budget = smallest(model) * 3 / 2;
  for (const bool reading : {false, true}) {
    for (const int when : {0, 1, 7, 30}) {
      CAPTURE(reading, when);
      krama::TierOptions tier;
      if (reading) tier.calls.pread = failing_read;
      if (!reading) tier.calls.pwrite = failing_write;
      FarJob<float, krama::MpiComm> job(world.duplicate("job"), model, data, options,
                                        on_host ? std::optional(tier) : std::nullopt);
      calls_left = 1 << 30;
      job.step(0);
      const auto before = job.all();
      if (mine) calls_left = when;
      std::string error;
      try {
        job.step(1);
      } catch (const krama::Error& e) {
        error = e.what();
      }
      CHECK_THAT(error, ContainsSubstring("failed on rank " + std::to_string(culprit) + ",") &&
                            ContainsSubstring("swap file"));
      for (const auto& theirs : world.gather_text(error, "errors")) CHECK(theirs == error);
      CHECK(same_bits(before, job.all()));
      calls_left = 1 << 30;
      job.step(1);
      job.step(2);
      CHECK(same_bits(whole.all(), job.all()));
    }
  }
}

namespace {
/// Bytes of memory of this process's own; 0 where the machine does not say.
std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;
#else
constexpr bool has_shadow_memory = false;
#endif
}  // namespace

TEST_CASE("far weights: parameters and moments do not grow the process's own memory", "[program]") {
  auto world = krama::MpiComm::world();
  if (world.rank() > 0) return;
  if (!on_host || has_shadow_memory || anonymous_bytes() == 0) SKIP("cannot be measured here");
  const auto data = Mlp::data();
  const auto model =
      krama::models::mlp<D, float>({{20, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 6}});
  constexpr std::int64_t budget = 12 << 20;
  const std::int64_t before = anonymous_bytes();
  FarJob<float, krama::SelfComm> job(krama::SelfComm("alone"), model, data,
                                     {.micro_batch = 16, .weights_budget = budget},
                                     krama::TierOptions{});
  job.step(0);
  job.step(1);
  const std::int64_t bytes = job.store().size() * 4 * std::int64_t{sizeof(float)};
  CHECK(bytes > 9 * budget);
  CHECK(anonymous_bytes() - before <= budget + (std::int64_t{48} << 20));
}
