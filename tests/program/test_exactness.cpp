// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>

#include "program/problems.hpp"

using namespace program_test;
using D = TestDevice;

namespace {

/// Splits of a batch over the ranks: equal, skewed, and one rank without a sample.
std::vector<std::vector<std::int64_t>> splits(std::int64_t batch, int ranks) {
  std::vector<std::vector<std::int64_t>> all;
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> equal(n, batch / ranks);
  equal[0] += batch - std::accumulate(equal.begin(), equal.end(), std::int64_t{0});
  all.push_back(equal);
  std::vector<std::int64_t> skewed(n, 1);
  skewed[n - 1] = batch - static_cast<std::int64_t>(n) + 1;
  all.push_back(skewed);
  if (ranks > 1) {
    std::vector<std::int64_t> empty(n, 0);
    empty[1] = batch;
    all.push_back(empty);
  }
  return all;
}

}  // namespace

// The bar of every split: the error against the f64 reference of one rank is at most twice the error
// of one f32 rank, plus what rounding a sum may cost.
TEMPLATE_TEST_CASE("gradients: N01 N02 N03 H04 any split equals the global batch", "[program]", Mlp,
                   Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto m64 = TestType::template model<D, double>();
  const auto m32 = TestType::template model<D, float>();
  auto s64 = same_store<D, double>(m64);
  auto s32 = same_store<D, float>(m32);
  const std::vector<std::int64_t> alone{data.samples};
  krama::SelfComm self("reference");
  const auto reference =
      gradients<D, double>(m64, s64, self, data, alone, {.micro_batch = data.samples});
  const auto one = gradients<D, float>(m32, s32, self, data, alone, {.micro_batch = data.samples});
  double ignored = 0;
  for (std::size_t i = 0; i < data.y.size(); ++i) {
    if (data.y[i] == -100) ignored += data.weights[i];
  }
  CHECK(ignored > 0);

  for (const auto& counts : splits(data.samples, world.size())) {
    for (const std::int64_t micro : {data.samples, std::int64_t{3}}) {
      const auto many = gradients<D, float>(m32, s32, world, data, counts, {.micro_batch = micro});
      CAPTURE(counts, micro);
      CHECK(std::abs(many.outcome.loss() - reference.outcome.loss()) <=
            1e-5 * std::abs(reference.outcome.loss()));
      CHECK(many.outcome.weight == Catch::Approx(reference.outcome.weight).epsilon(1e-6));
      for (const auto& s : s32.segments()) {
        CAPTURE(s.name);
        const double e1 = distance(one.values, reference.values, s);
        const double en = distance(many.values, reference.values, s);
        const double g = norm(reference.values, s);
        CHECK(en <= 2.0 * e1 + 4.0 * 0x1p-24 * g);
      }
    }
  }
}

TEST_CASE("gradients: N05 nothing to learn from gives loss 0 and changes nothing", "[program]") {
  auto world = krama::MpiComm::world();
  auto data = Mlp::data();
  for (auto& y : data.y) y = -100;
  const auto model = Mlp::model<D, float>();
  auto store = same_store<D, float>(model);
  const krama::exec_of<D> exec;
  const auto before = krama::download(exec, store.values());
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> executor(
      exec, model, store, {}, {}, world, {.micro_batch = 8});
  const auto o = executor.step(1, 1, 0.1, 0, world.rank() == 0 ? 8 : 0,
                               feed(exec, data, 0, world.rank() == 0 ? 8 : 0, 8));
  CHECK(o.weight == 0.0);
  CHECK(o.loss() == 0.0);
  CHECK(o.finite);
  CHECK(executor.updates() == 0);
  CHECK(krama::download(exec, store.values()) == before);
}

TEST_CASE("step: M01 a non-finite gradient on one rank stops the update on all", "[program]") {
  auto world = krama::MpiComm::world();
  auto data = Mlp::data();
  const auto model = Mlp::model<D, float>();
  auto store = same_store<D, float>(model);
  const krama::exec_of<D> exec;
  const auto before = krama::download(exec, store.values());
  if (world.rank() == world.size() - 1) data.x[0] = std::nan("");
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> executor(
      exec, model, store, {}, {}, world, {.micro_batch = 8});
  const auto o = executor.step(1, 1, 0.1, 0, 8, feed(exec, data, 0, 8, 8));
  CHECK_FALSE(o.finite);
  CHECK(executor.updates() == 0);
  CHECK(krama::download(exec, store.values()) == before);
}

TEMPLATE_TEST_CASE("step: replicas hold the same bits after every step, N15 an idle rank too",
                   "[program]", Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto model = TestType::template model<D, float>();
  auto store = same_store<D, float>(model);
  const krama::exec_of<D> exec;
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> executor(
      exec, model, store, {}, {}, world,
      {.micro_batch = 4, .clip_norm = 0.5, .bucket_elements = 600});
  const auto before = krama::download(exec, store.values());
  const std::int64_t mine = world.rank() == 0 ? 6 : world.rank() == 1 ? 0 : 2;
  for (std::uint32_t step = 0; step < 3; ++step) {
    executor.step(step, 1, 0.01, 0, mine, feed(exec, data, 0, mine, 4));
    krama::check_same_values(world, exec, store, step);
  }
  CHECK(executor.updates() == 3);
  CHECK(krama::download(exec, store.values()) != before);
}

// Adam hardly sees a factor on the gradient; plain SGD and clipping do.
TEST_CASE("update: N03 one step of any split moves parameters as one rank does", "[program]") {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = Mlp::data();
  const auto model = Mlp::model<D, double>();
  const auto step = [&]<class Comm>(Comm comm, const std::vector<std::int64_t>& counts,
                                    krama::ExecutorOptions options) {
    auto store = same_store<D, double>(model);
    krama::Executor<D, double, krama::nn::CrossEntropy, krama::optim::Sgd, Comm> executor(
        exec, model, store, {}, {}, comm, options);
    const auto r = static_cast<std::size_t>(comm.rank());
    const auto first = std::accumulate(
        counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(r), std::int64_t{0});
    const auto outcome = executor.step(0, 1, 0.5, first, counts[r],
                                       feed(exec, data, first, counts[r], options.micro_batch));
    return std::pair(krama::download(exec, store.values()), outcome.grad_norm);
  };
  for (const double clip : {0.0, 0.01}) {
    krama::ExecutorOptions options{.micro_batch = data.samples, .clip_norm = clip};
    const auto [wanted, norm] = step(krama::SelfComm("reference"), {data.samples}, options);
    const auto start = krama::download(exec, same_store<D, double>(model).values());
    CHECK(wanted != start);
    if (clip > 0) CHECK(norm > clip);  // so that there is something to clip
    for (const auto& counts : splits(data.samples, world.size())) {
      CAPTURE(counts, clip);
      options.micro_batch = 4;
      const auto [found, found_norm] = step(world, counts, options);
      CHECK(found_norm == Catch::Approx(norm).epsilon(1e-12));
      double largest = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        largest = std::max(largest, std::abs(found[i] - wanted[i]));
      }
      CHECK(largest < 1e-14);
    }
  }
}
