// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Ranks of unlike executables train together. Void, and a failure, unless the executables' local
// gradients really differ in bits: then the test would prove nothing.

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/program/fingerprint.hpp>

#include <catch2/catch_all.hpp>
#include <cstring>
#include <optional>
#include <set>

#include "program/problems.hpp"

using namespace program_test;
using D = TestDevice;

namespace {

std::string bits_of(const std::vector<double>& values) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const double v : values) {
    std::uint64_t u = 0;
    std::memcpy(&u, &v, sizeof(u));
    h = (h ^ u) * 0x100000001b3U;
  }
  return std::to_string(h);
}

/// Samples of each rank: the first takes most, the last one less, in the middle none.
std::vector<std::int64_t> skewed(std::int64_t batch, int ranks) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), 0);
  counts.front() = batch - batch / 3;
  counts.back() += batch / 3;
  return counts;
}

}  // namespace

TEMPLATE_TEST_CASE("mixed: the executables round differently, or this test is void", "[mixed]", Mlp,
                   Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto model = TestType::template model<D, float>();
  auto store = same_store<D, float>(model);
  const auto mine = gradients<D, float>(model, store, krama::SelfComm("local"), data,
                                        {data.samples}, {.micro_batch = data.samples});
  const auto all = world.gather_text(bits_of(mine.values), "bits of local gradients");
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 2);
}

TEMPLATE_TEST_CASE("mixed: N01 the gradient is that of the global batch", "[mixed]", Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto m64 = TestType::template model<D, double>();
  const auto m32 = TestType::template model<D, float>();
  auto s64 = same_store<D, double>(m64);
  auto s32 = same_store<D, float>(m32);
  const std::vector<std::int64_t> alone{data.samples};
  const krama::SelfComm self("reference");
  const auto reference =
      gradients<D, double>(m64, s64, self, data, alone, {.micro_batch = data.samples});
  const auto one = gradients<D, float>(m32, s32, self, data, alone, {.micro_batch = data.samples});
  const auto many = gradients<D, float>(m32, s32, world, data, skewed(data.samples, world.size()),
                                        {.micro_batch = 4});
  for (const auto& s : s32.segments()) {
    CAPTURE(s.name, world.rank());
    const double e1 = distance(one.values, reference.values, s);
    const double en = distance(many.values, reference.values, s);
    CHECK(en <= 2.0 * e1 + 4.0 * 0x1p-24 * norm(reference.values, s));
  }
}

TEMPLATE_TEST_CASE("mixed: replicas hold the same bits after every step", "[mixed]", Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const auto data = TestType::data();
  const auto model = TestType::template model<D, float>();
  const auto format = GENERATE(krama::WireFormat::f32, krama::WireFormat::bf16,
                               krama::WireFormat::f16, krama::WireFormat::int8);
  CAPTURE(krama::name_of(format));
  auto store = same_store<D, float>(model);
  const krama::exec_of<D> exec;
  const auto before = krama::download(exec, store.values());
  krama::check_same_model(world, store);
  krama::check_same_values(world, exec, store, 0);
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm> executor(
      exec, model, store, {}, {}, world,
      {.micro_batch = 4, .clip_norm = 1.0, .bucket_elements = 700, .wire = {format, true}});
  const auto counts = skewed(data.samples, world.size());
  std::int64_t first = 0;
  for (int r = 0; r < world.rank(); ++r) first += counts[static_cast<std::size_t>(r)];
  const std::int64_t mine = counts[static_cast<std::size_t>(world.rank())];
  for (std::uint32_t step = 0; step < 5; ++step) {
    const auto o = executor.step(step, 1, 0.01, first, mine, feed(exec, data, first, mine, 4));
    CHECK(o.finite);
    krama::check_same_values(world, exec, store, step + 1);
  }
  CHECK(krama::download(exec, store.values()) != before);
}

TEST_CASE("mixed: N12 statistics of the global batch have the same bits on unlike executables",
          "[mixed]") {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = Normed::data();
  const auto train = [&]<class T, class Comm>(T, Comm comm,
                                              const std::vector<std::int64_t>& counts) {
    const auto model = Normed::model<D, T>();
    auto store = same_store<D, T>(model);
    krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::Sgd, Comm> executor(
        exec, model, store, {}, {}, comm, {.micro_batch = data.samples});
    std::int64_t first = 0;
    for (int r = 0; r < comm.rank(); ++r) first += counts[static_cast<std::size_t>(r)];
    const std::int64_t mine = counts[static_cast<std::size_t>(comm.rank())];
    for (std::uint32_t step = 0; step < 5; ++step) {
      executor.step(step, 1, 0.05, first, mine, feed(exec, data, first, mine, data.samples));
      krama::check_same_values(comm, exec, store, step + 1);
    }
    const auto values = krama::download(exec, store.values());
    return std::vector<double>(values.begin() + store.buffers_begin(), values.end());
  };
  const auto found = train(0.0F, world, skewed(data.samples, world.size()));
  const auto wanted = train(0.0, krama::SelfComm("reference"), {data.samples});
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(found[i] - wanted[i]));
  }
  CHECK(largest < 1e-5);

  // What the ranks make of the same numbers must not depend on how they round.
  krama::RankGroup<krama::MpiComm> group(world);
  std::vector<double> moments;
  for (std::uint64_t i = 0; i < 400; ++i) {
    moments.push_back(krama::uniform({8, static_cast<std::uint32_t>(world.rank()), 1}, i));
  }
  const krama::Tensor<double, 1, krama::mem_of<D>> t(exec, "moments", {400});
  krama::upload(exec, t.ref(), std::span<const double>(moments));
  krama::nn::detail::join_moments<D>(exec, group, "moments", 17.0 + world.rank(), t.ref());
  const auto all = world.gather_text(bits_of(krama::download(exec, t.ref())), "bits of moments");
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 1);
}

TEST_CASE("mixed: one update of the same numbers gives the same bits on unlike executables",
          "[mixed]") {
  auto world = krama::MpiComm::world();
  using A = float;
  using M = krama::mem_of<D>;
  const krama::exec_of<D> exec;
  constexpr std::int64_t n = 5000;
  const auto numbers = [&](std::uint32_t stream, float scale) {
    std::vector<A> v;
    for (std::uint64_t i = 0; i < n; ++i) {
      v.push_back(scale * (2 * krama::uniform({8, stream, 0}, i) - 1));
    }
    krama::Tensor<A, 1, M> t(exec, "test", {n});
    krama::upload(exec, t.ref(), std::span<const A>(v));
    return t;
  };
  const krama::optim::AdamW adamw{.weight_decay = 0.1};
  const auto values = numbers(1, 1.0F);
  const auto grads = numbers(2, 3.0F);
  const krama::Tensor<A, 1, M> m(exec, "m", {n});
  const krama::Tensor<A, 1, M> v(exec, "v", {n});
  krama::fill(exec, m.ref(), 0.0F);
  krama::fill(exec, v.ref(), 0.0F);
  const krama::Tensor<std::uint8_t, 1, M> attributes(exec, "attributes", {(n + 255) / 256});
  krama::fill(exec, attributes.ref(), std::uint8_t{krama::chunk_decays});
  krama::optim::UpdateRange<A, M> range;
  range.values = values.ref();
  range.grads = grads.cref();
  range.states[0] = m.ref();
  range.states[1] = v.ref();
  range.attributes = attributes.cref();
  for (std::int64_t step = 1; step <= 20; ++step) {
    adamw.update<D, A>(exec, range, {0.01, 0.37, step});
  }
  std::vector<double> result;
  for (const A a : krama::download(exec, values.ref())) result.push_back(static_cast<double>(a));
  const auto all = world.gather_text(bits_of(result), "bits of updated values");
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 1);
}

TEMPLATE_TEST_CASE("mixed: weights in far memory of some ranks, or all, change no bit", "[mixed]",
                   Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = TestType::data();
  const auto model = TestType::template model<D, float>();
  const auto counts = skewed(data.samples, world.size());
  std::int64_t first = 0;
  for (int r = 0; r < world.rank(); ++r) first += counts[static_cast<std::size_t>(r)];
  const std::int64_t mine = counts[static_cast<std::size_t>(world.rank())];
  const auto train = [&](bool far) {
    std::optional<krama::TierOptions> tier;
    if (far) tier = krama::TierOptions{};
    auto store = model.make_store(exec, 3, tier);
    const std::int64_t budget = far ? krama::WeightWindow<D, float>::smallest(model, store) : 0;
    krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::MpiComm>
        executor(
            exec, model, store, {}, {}, world,
            {.micro_batch = 4, .clip_norm = 1.0, .bucket_elements = 700, .weights_budget = budget});
    for (std::uint32_t step = 0; step < 4; ++step) {
      executor.step(step, 1, 0.01, first, mine, feed(exec, data, first, mine, 4));
      krama::check_same_values(world, exec, store, step + 1);
    }
    return krama::download(exec, store.values());
  };
  const auto near = train(false);
  CHECK(near == train(true));
  CHECK(near == train(world.rank() > 0));
}
