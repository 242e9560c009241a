// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"
#include "support/test_space.hpp"

#include <krama/models/mlp.hpp>
#include <krama/train/local_sync.hpp>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using krama::test::world;
using krama::train::LocalRule;
using krama::train::LocalSyncOptions;
using D = TestDevice;
using Sync = krama::train::LocalSync<D, float, krama::MpiComm>;

namespace {

constexpr double rate = 0.1;

/// Rank r has r + 1 samples, so that no two have the same share; the loss of sample s is
/// |x - target(s)|^2 / 2.
double target(int rank, int sample, std::size_t i) {
  return static_cast<double>(
      krama::normal({3, static_cast<std::uint32_t>(17 * rank + sample), 0}, i));
}
template <class A>
void local_step(int rank, std::vector<A>& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    A g = 0;
    for (int s = 0; s <= rank; ++s) g += x[i] - static_cast<A>(target(rank, s, i));
    x[i] -= static_cast<A>(rate) * (g / static_cast<A>(rank + 1));
  }
}

/// The same in double, all ranks at once: what `rounds` of k steps must give.
std::vector<double> wanted(std::vector<double> a, int ranks, int rounds, LocalSyncOptions o) {
  std::vector<double> velocity(a.size(), 0.0);
  std::vector<std::vector<double>> x(static_cast<std::size_t>(ranks), a);
  auto s = x;
  const double total = ranks * (ranks + 1) / 2.0;
  for (int round = 0; round < rounds; ++round) {
    const bool cocod = o.rule == LocalRule::cocod;
    // cocod: what was sent before this round arrives at its end.
    const auto sent = s;
    for (int r = 0; r < ranks; ++r) {
      for (int k = 0; k < o.local_steps; ++k) local_step(r, x[static_cast<std::size_t>(r)]);
    }
    if (cocod && round == 0) {
      s = x;
      continue;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      double g = 0;
      for (std::size_t r = 0; r < x.size(); ++r) {
        g += static_cast<double>(r + 1) / total * (a[i] - (cocod ? sent[r][i] : x[r][i]));
      }
      velocity[i] = o.outer_momentum * velocity[i] + g;
      a[i] -= o.outer_rate * (o.outer_momentum > 0 ? g + o.outer_momentum * velocity[i] : g);
      for (std::size_t r = 0; r < x.size(); ++r) {
        x[r][i] = cocod ? a[i] + (x[r][i] - sent[r][i]) : a[i];
      }
    }
    s = x;
  }
  return a;
}

struct LocalJob {
  explicit LocalJob(const std::string& name, LocalSyncOptions o)
      : comm(world().duplicate(name)),
        store(krama::models::mlp<D, float>({{9, 40, 11}}).make_store(exec, 1)),
        sync(exec, store, comm, o) {}
  void train(int steps) {
    for (int k = 0; k < steps; ++k) {
      auto x = values();
      local_step(comm.rank(), x);
      krama::upload(exec, store.values(), std::span<const float>(x));
      if (sync.after_step(comm.rank() + 1.0)) CHECK(same_everywhere(anchor()));
    }
  }
  [[nodiscard]] std::vector<float> values() const { return krama::download(exec, store.values()); }
  [[nodiscard]] std::vector<float> anchor() const { return krama::download(exec, sync.anchor()); }
  [[nodiscard]] bool same_everywhere(const std::vector<float>& v) {
    const std::string_view mine(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
    const auto all = comm.gather_text(mine, "bits");
    return std::all_of(all.begin(), all.end(), [&](const auto& t) { return t == mine; });
  }

  krama::exec_of<D> exec;
  krama::MpiComm comm;
  krama::ParamStore<float, krama::mem_of<D>> store;
  Sync sync;
};

double worst_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double e = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    e = std::max(e, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return e;
}
/// The norm in which splits are compared (program/test_exactness.cpp).
double distance_between(const std::vector<float>& a, const std::vector<double>& b) {
  double e = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    e += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  }
  return std::sqrt(e);
}

std::vector<double> in_double(const std::vector<float>& v) { return {v.begin(), v.end()}; }

}  // namespace

TEST_CASE("local rounds: one step and a plain average are synchronous training", "[train]") {
  for (const auto rule : {LocalRule::blocking, LocalRule::diloco}) {
    LocalJob job("k is 1 " + std::to_string(static_cast<int>(rule)), {.rule = rule});
    const int ranks = job.comm.size();
    auto one = job.values();
    auto exact = in_double(one);
    const auto step = [&](auto& x) {
      using A = typename std::decay_t<decltype(x)>::value_type;
      for (std::size_t i = 0; i < x.size(); ++i) {
        A g = 0;
        A n = 0;
        for (int r = 0; r < ranks; ++r) {
          for (int s = 0; s <= r; ++s, n += 1) g += x[i] - static_cast<A>(target(r, s, i));
        }
        x[i] -= static_cast<A>(rate) * (g / n);
      }
    };
    for (int t = 0; t < 40; ++t) {
      step(one);
      step(exact);
    }
    job.train(40);
    CHECK(job.same_everywhere(job.values()));
    CHECK(distance_between(one, exact) > 0);
    // The bar of splits with its allowance for rounding, for these steps are on the way to a standstill:
    // near it the same replica is rounded the same way in every step, and the errors do not average out.
    // On 2 ranks they are 2.4 times that of one. Training stays below 2 (test_local_rounds.cpp).
    const double norm = distance_between(std::vector<float>(exact.size(), 0.0F), exact);
    CHECK(distance_between(job.values(), exact) <=
          2 * distance_between(one, exact) + 4 * 0x1p-24 * norm);
  }
}

TEST_CASE("local rounds: each rule is its formula, with true weights", "[train]") {
  const std::vector<LocalSyncOptions> all{
      {.rule = LocalRule::blocking, .local_steps = 3},
      {.rule = LocalRule::cocod, .local_steps = 3},
      {.rule = LocalRule::diloco, .local_steps = 4, .outer_rate = 0.7, .outer_momentum = 0.9}};
  for (const auto& o : all) {
    LocalJob job("rule " + std::to_string(static_cast<int>(o.rule)), o);
    const auto begin = in_double(job.values());
    job.train(static_cast<int>(6 * o.local_steps));
    CHECK(worst_difference(job.anchor(), wanted(begin, job.comm.size(), 6, o)) < 1e-5);
    job.sync.settle();
    CHECK(job.same_everywhere(job.values()));
    CHECK(job.values() == job.anchor());
  }
}

TEST_CASE("local rounds: restored, they go on with the same bits", "[train]") {
  for (const auto rule : {LocalRule::cocod, LocalRule::diloco}) {
    LocalSyncOptions o{.rule = rule, .local_steps = 2};
    if (rule == LocalRule::diloco) o = {rule, 2, 0.7, 0.9};
    const auto name = std::to_string(static_cast<int>(rule));
    LocalJob job("saved " + name, o);
    job.train(6);
    const auto state = job.sync.save();
    job.train(6);
    LocalJob again("restored " + name, o);
    again.sync.restore(state);
    again.train(6);
    CHECK(job.values() == again.values());
    CHECK(job.sync.rounds() == again.sync.rounds());
  }
}

TEST_CASE("local rounds: wrong and differing options are refused everywhere", "[train]") {
  CHECK_THROWS_AS(LocalJob("no steps", {.local_steps = 0}), krama::Error);
  CHECK_THROWS_AS(LocalJob("rate", {.rule = LocalRule::cocod, .outer_rate = 0.7}), krama::Error);
  CHECK_THROWS_AS(LocalJob("momentum", {.rule = LocalRule::diloco, .outer_momentum = 1.0}),
                  krama::Error);
  if (world().size() > 1) {
    CHECK_THROWS_AS(LocalJob("unlike", {.local_steps = world().rank() == 0 ? 1 : 2}), krama::Error);
  }
}
