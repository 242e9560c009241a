// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <cstring>
#include <numeric>

#include "program/problems.hpp"

using namespace program_test;
using Catch::Matchers::ContainsSubstring;
using D = TestDevice;
using Counts = std::vector<std::int64_t>;

namespace {

template <class T>
krama::nn::Model<D, T> net(bool synchronised = true) {
  return Normed::model<D, T>(synchronised);
}

/// Splits of a batch over the ranks: equal, skewed, and (ranks > 1) all on the second rank.
std::vector<Counts> skewed_splits(std::int64_t batch, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  Counts equal(n, batch / ranks);
  equal[0] += batch - std::accumulate(equal.begin(), equal.end(), std::int64_t{0});
  Counts skewed(n, 1);
  skewed[n - 1] = batch - static_cast<std::int64_t>(n) + 1;
  std::vector<Counts> all{equal, skewed};
  if (ranks > 1) {
    Counts one(n, 0);
    one[1] = batch;
    all.push_back(one);
  }
  return all;
}

struct Trained {
  std::vector<double> values;
  double loss = 0;
};

/// Some steps on a fixed batch split into `counts`; with checks that the replicas agree.
template <class T, class Comm>
Trained train(Comm comm, const krama::nn::Model<D, T>& model, const Data& data,
              const Counts& counts, const krama::ExecutorOptions& options, int steps = 3) {
  const krama::exec_of<D> exec;
  auto store = same_store<D, T>(model);
  krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::Sgd, Comm> executor(
      exec, model, store, {}, {}, comm, options);
  const auto r = static_cast<std::size_t>(comm.rank());
  const auto first = std::accumulate(
      counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(r), std::int64_t{0});
  Trained t;
  for (int s = 0; s < steps; ++s) {
    const auto o = executor.step(static_cast<std::uint32_t>(s), 1, 0.2, first, counts[r],
                                 feed(exec, data, first, counts[r], options.micro_batch));
    t.loss = o.loss();
    krama::check_same_values(comm, exec, store, s);
  }
  for (const auto v : krama::download(exec, store.values())) {
    t.values.push_back(static_cast<double>(v));
  }
  return t;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    largest = std::max(largest, std::isnan(a[i] - b[i]) ? 1e30 : std::abs(a[i] - b[i]));
  }
  return largest;
}

/// The part of the flat values that holds buffers.
template <class T>
std::vector<double> buffers(const krama::nn::Model<D, T>& model,
                            const std::vector<double>& values) {
  const auto store = same_store<D, T>(model);
  return {values.begin() + store.buffers_begin(), values.end()};
}

}  // namespace

// Statistics, gradients, updates and running statistics at once: three steps of SGD.
TEST_CASE("batch_norm: N12 any split trains as one rank does, a rank without samples too",
          "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Mlp::data();
  const auto model = net<double>();
  krama::ExecutorOptions options{.micro_batch = data.samples, .bucket_elements = 512};
  const auto wanted = train(krama::SelfComm("reference"), model, data, {data.samples}, options);
  const auto start = buffers(
      model, train(krama::SelfComm("start"), model, data, {data.samples}, options, 0).values);
  CHECK(largest_difference(buffers(model, wanted.values), start) > 0.1);
  for (const auto& counts : skewed_splits(data.samples, world.size())) {
    CAPTURE(counts);
    const auto found = train(world, model, data, counts, options);
    CHECK(found.loss == Catch::Approx(wanted.loss).epsilon(1e-12));
    CHECK(largest_difference(found.values, wanted.values) < 1e-12);
  }
}

TEST_CASE("batch_norm: N12 gradients in f32 stay as close to f64 as those of one rank",
          "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Mlp::data();
  const auto m64 = net<double>();
  const auto m32 = net<float>();
  auto s64 = same_store<D, double>(m64);
  auto s32 = same_store<D, float>(m32);
  const krama::ExecutorOptions options{.micro_batch = data.samples};
  krama::SelfComm self("reference");
  const auto reference = gradients<D, double>(m64, s64, self, data, {data.samples}, options);
  const auto one = gradients<D, float>(m32, s32, self, data, {data.samples}, options);
  for (const auto& counts : skewed_splits(data.samples, world.size())) {
    const auto many = gradients<D, float>(m32, s32, world, data, counts, options);
    for (const auto& s : s32.segments()) {
      if (s.frozen) continue;
      CAPTURE(counts, s.name);
      const double g = norm(reference.values, s);
      CHECK(g > 0);
      CHECK(distance(many.values, reference.values, s) <=
            2.0 * distance(one.values, reference.values, s) + 4.0 * 0x1p-24 * g);
    }
  }
}

TEST_CASE("batch_norm: micro-batches of all ranks meet, the last one's statistics are committed",
          "[program]") {
  auto world = krama::MpiComm::world();
  const std::int64_t samples = 24;
  const std::int64_t ranks = world.size();
  const auto data = mlp_data(samples, 20, 6);
  // What one rank must read so that its two micro-batches are those of all ranks together.
  Data sorted = data;
  std::size_t to = 0;
  for (std::int64_t micro = 0; micro < 2; ++micro) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      for (std::int64_t i = 0; i < 12 / ranks; ++i, ++to) {
        const auto from = static_cast<std::size_t>(r * samples / ranks + micro * 12 / ranks + i);
        std::copy_n(data.x.begin() + static_cast<std::ptrdiff_t>(20 * from), 20,
                    sorted.x.begin() + static_cast<std::ptrdiff_t>(20 * to));
        sorted.y[to] = data.y[from];
        sorted.weights[to] = data.weights[from];
      }
    }
  }
  const auto model = net<double>();
  const auto wanted =
      train(krama::SelfComm("reference"), model, sorted, {samples}, {.micro_batch = 12});
  const auto found =
      train(world, model, data, Counts(static_cast<std::size_t>(ranks), samples / ranks),
            {.micro_batch = 12 / ranks});
  CHECK(largest_difference(found.values, wanted.values) < 1e-12);

  // Momentum 0.3 applied once to the statistics of the last 12 samples of one step.
  const auto step = train(krama::SelfComm("one"), model, sorted, {samples}, {.micro_batch = 12}, 1);
  const krama::exec_of<D> exec;
  auto store = same_store<D, double>(model);
  krama::Executor<D, double, krama::nn::CrossEntropy, krama::optim::Sgd, krama::SelfComm> last(
      exec, model, store, {}, {}, krama::SelfComm("last"), {.micro_batch = 12});
  last.step(0, 1, 0.2, 12, 12, feed(exec, sorted, 12, 12, 12));
  std::vector<double> values = krama::download(exec, store.values());
  CHECK(buffers(model, step.values) == buffers(model, values));
}

TEST_CASE("batch_norm: recomputing gives the same bits and touches the statistics once",
          "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Mlp::data();
  const auto model = net<float>();
  const auto counts = skewed_splits(data.samples, world.size()).back();
  const auto kept = train(world, model, data, counts, {.micro_batch = 29});
  const auto again =
      train(world, model, data, counts, {.micro_batch = 29, .recompute = {true, true, false}});
  CHECK(kept.values == again.values);
}

TEST_CASE("batch_norm: C05 ranks that would call differently are refused before step 1",
          "[program]") {
  auto world = krama::MpiComm::world();
  if (world.size() < 2) return;
  const auto data = Mlp::data();
  const auto model = net<float>();
  const krama::exec_of<D> exec;
  auto store = same_store<D, float>(model);
  const auto before = krama::download(exec, store.values());
  using Exec =
      krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::Sgd, krama::MpiComm>;
  Exec executor(exec, model, store, {}, {}, world, {.micro_batch = 4});
  const std::int64_t mine = world.rank() == 0 ? 10 : 4;
  CHECK_THROWS_WITH(executor.step(0, 1, 0.1, 0, mine, feed(exec, data, 0, mine, 4)),
                    ContainsSubstring("rank 0 has 3 micro-batches and rank 1 has 1"));
  Exec other(exec, model, store, {}, {}, world,
             {.micro_batch = 8, .recompute = std::vector<bool>(3, world.rank() == 0)});
  CHECK_THROWS_WITH(other.step(0, 1, 0.1, 0, 8, feed(exec, data, 0, 8, 8)),
                    ContainsSubstring("rank 0 and rank 1 recompute different blocks"));
  CHECK(krama::download(exec, store.values()) == before);
  // Not synchronised, ranks may differ.
  const auto apart = net<float>(false);
  auto store2 = same_store<D, float>(apart);
  Exec third(exec, apart, store2, {}, {}, world, {.micro_batch = 4});
  CHECK(third.step(0, 1, 0.1, 0, mine, feed(exec, data, 0, mine, 4)).finite);
  krama::check_same_values(world, exec, store2, 1);
}

TEST_CASE("batch_norm: not synchronised, the first rank with samples gives the running statistics",
          "[program]") {
  auto world = krama::MpiComm::world();
  const auto data = Mlp::data();
  const auto model = net<double>(false);
  Counts counts(static_cast<std::size_t>(world.size()), 7);
  if (world.size() > 1) counts[0] = 0;
  const auto found = train(world, model, data, counts, {.micro_batch = 7}, 1);
  const auto wanted = train(krama::SelfComm("first"), model, data, {7}, {.micro_batch = 7}, 1);
  // Another rank's arithmetic may be another device's.
  CHECK(largest_difference(buffers(model, found.values), buffers(model, wanted.values)) < 1e-14);
}

TEST_CASE("batch_norm: a step without an update leaves the running statistics alone", "[program]") {
  auto world = krama::MpiComm::world();
  auto data = Mlp::data();
  const auto model = net<float>();
  const auto start =
      train(world, model, data, skewed_splits(29, world.size())[0], {.micro_batch = 29}, 0);
  for (auto& y : data.y) y = -100;
  const auto idle =
      train(world, model, data, skewed_splits(29, world.size())[0], {.micro_batch = 29}, 2);
  CHECK(idle.values == start.values);
}

TEST_CASE("batch_norm: decay, clipping and the norm do not see running statistics", "[program]") {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = Mlp::data();
  const auto model = net<double>();
  const auto one_step = [&](double decay, double clip) {
    auto store = same_store<D, double>(model);
    krama::Executor<D, double, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> e(
        exec, model, store, {}, {.weight_decay = decay}, world,
        {.micro_batch = 29, .clip_norm = clip});
    const auto n = skewed_splits(29, world.size())[0];
    const auto r = static_cast<std::size_t>(world.rank());
    const auto first = std::accumulate(n.begin(), n.begin() + world.rank(), std::int64_t{0});
    const auto o = e.step(0, 1, 0.1, first, n[r], feed(exec, data, first, n[r], 29));
    return std::pair(o.grad_norm, buffers(model, krama::download(exec, store.values())));
  };
  const auto [norm, plain] = one_step(0.0, 0.0);
  const auto [decayed_norm, decayed] = one_step(0.5, 0.001);
  CHECK(plain == decayed);
  CHECK(norm == decayed_norm);
  auto store = same_store<D, double>(model);
  krama::SelfComm self("norm");
  const auto g = gradients<D, double>(model, store, self, data, {29}, {.micro_batch = 29});
  double sum = 0;
  for (const auto& s : store.segments()) {
    if (!s.buffer) sum += std::pow(program_test::norm(g.values, s), 2);
  }
  CHECK(norm == Catch::Approx(std::sqrt(sum)).epsilon(1e-12));
  CHECK(store.parameter_count() == 14 * 20 + 14 * 14 + 4 * 14 + 6 * 14 + 6);
}
