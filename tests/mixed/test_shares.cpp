// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Unlike executables train together while their shares change. At chosen steps the gradient and the
// update are recomputed by one rank in f64 from the same parameters; replicas hold the same bits all
// along. Times are made up, so that the shares are the same in every run of the test.

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/program/fingerprint.hpp>
#include <krama/train/share_steering.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>
#include <set>

#include "program/problems.hpp"

using namespace program_test;
using D = TestDevice;

namespace {

using M = krama::mem_of<D>;
constexpr double rate = 0.5;

template <class T, class Comm>
using Exec = krama::Executor<D, T, krama::nn::CrossEntropy, krama::optim::Sgd, Comm>;

/// A store of type T with the values of an f32 store.
template <class T, class Model>
auto with_values(const Model& model, const std::vector<float>& values) {
  const krama::exec_of<D> exec;
  auto store = model.make_store(exec, 3);
  using A = krama::accum_t<T>;
  const std::vector<A> cast(values.begin(), values.end());
  krama::upload(exec, store.values(), std::span<const A>(cast));
  store.refresh_working(exec);
  return store;
}

/// Parameters after one step of one rank with the whole batch, from `values`.
template <class T, class Model>
std::vector<double> one_rank_update(const Model& model, const std::vector<float>& values,
                                    const Data& data) {
  const krama::exec_of<D> exec;
  auto store = with_values<T>(model, values);
  Exec<T, krama::SelfComm> executor(exec, model, store, {}, {}, krama::SelfComm("reference"),
                                    {.micro_batch = data.samples});
  executor.step(0, 1, rate, 0, data.samples, feed(exec, data, 0, data.samples, data.samples));
  const auto after = krama::download(exec, store.values());
  return {after.begin(), after.end()};
}

/// Seconds a sample of rank r at a step: who is slow changes every eight steps.
double slowness(std::size_t r, std::int64_t step, std::size_t ranks) {
  return r == static_cast<std::size_t>(step / 8) % ranks ? 4.0 : 1.0 + 0.5 * static_cast<double>(r);
}

}  // namespace

TEMPLATE_TEST_CASE("mixed: shares that change at run time leave the training what it is", "[mixed]",
                   Mlp, Gpt) {
  auto world = krama::MpiComm::world();
  const krama::exec_of<D> exec;
  const auto data = TestType::data();
  const auto m64 = TestType::template model<D, double>();
  const auto m32 = TestType::template model<D, float>();
  auto store = same_store<D, float>(m32);
  Exec<float, krama::MpiComm> executor(exec, m32, store, {}, {}, world,
                                       {.micro_batch = 4, .bucket_elements = 700});
  krama::train::ShareSteering steering(data.samples, world.size(), world.rank(), {});
  const auto r = static_cast<std::size_t>(world.rank());
  const auto ranks = static_cast<std::size_t>(world.size());
  std::set<krama::plan::Shares> seen;

  for (std::int64_t step = 0; step < 24; ++step) {
    const auto all = krama::gather_numbers(world, steering.announcement(step), "step begins");
    steering.hear(step, all.front());
    const krama::plan::Shares shares = steering.shares();
    seen.insert(shares);
    CHECK(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}) == data.samples);
    for (const auto& text : world.gather_text(krama::plan::describe(shares), "shares")) {
      CHECK(text == krama::plan::describe(shares));
    }
    const auto before = krama::download(exec, store.values());

    const bool chosen = step % 6 == 5;
    if (chosen) {
      const std::vector<std::int64_t> alone{data.samples};
      const krama::SelfComm self("reference");
      auto s64 = with_values<double>(m64, before);
      auto s32 = with_values<float>(m32, before);
      auto many = with_values<float>(m32, before);
      const krama::ExecutorOptions whole{.micro_batch = data.samples};
      const auto reference = gradients<D, double>(m64, s64, self, data, alone, whole);
      const auto one = gradients<D, float>(m32, s32, self, data, alone, whole);
      const auto shared = gradients<D, float>(m32, many, world, data, shares, {.micro_batch = 4});
      for (const auto& s : store.segments()) {
        CAPTURE(step, shares, s.name);
        CHECK(distance(shared.values, reference.values, s) <=
              2.0 * distance(one.values, reference.values, s) +
                  4.0 * 0x1p-24 * norm(reference.values, s));
      }
    }

    const std::int64_t first =
        std::accumulate(shares.begin(), shares.begin() + world.rank(), std::int64_t{0});
    const auto o = executor.step(static_cast<std::uint32_t>(step), 1, rate, first, shares[r],
                                 feed(exec, data, first, shares[r], 4));
    CHECK(o.finite);
    CHECK(o.rank_seconds.size() == ranks);
    krama::check_same_values(world, exec, store, step + 1);

    if (chosen) {
      const auto wanted = one_rank_update<double>(m64, before, data);
      const auto alone = one_rank_update<float>(m32, before, data);
      const auto after = krama::download(exec, store.values());
      const std::vector<double> found(after.begin(), after.end());
      CHECK(after != before);
      for (const auto& s : store.segments()) {
        CAPTURE(step, shares, s.name);
        CHECK(distance(found, wanted, s) <=
              2.0 * distance(alone, wanted, s) + 4.0 * 0x1p-24 * norm(wanted, s));
      }
    }

    std::vector<double> seconds;
    for (std::size_t q = 0; q < ranks; ++q) {
      seconds.push_back(slowness(q, step, ranks) * static_cast<double>(shares[q]));
    }
    steering.after_step(seconds);
  }
  CHECK(seen.size() >= 3);  // otherwise nothing changed, and nothing was shown
}
