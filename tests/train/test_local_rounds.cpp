// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

#include <krama/comm/mpi/communicator.hpp>
#include <krama/comm/self.hpp>
#include <krama/models/gpt.hpp>
#include <krama/nn/layers/batch_norm.hpp>
#include <krama/nn/layers/linear.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/train/checkpoint.hpp>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <numeric>
#include <optional>

#include "train/shared_folder.hpp"
#include "train/train_test.hpp"

using namespace train_test;
using Catch::Matchers::ContainsSubstring;
using krama::train::LocalRule;
using krama::train::LocalSyncOptions;

namespace {

constexpr std::int64_t batch = 12;

std::vector<LocalSyncOptions> every_rule(std::int64_t steps) {
  return {{LocalRule::blocking, steps, 1.0, 0.0},
          {LocalRule::cocod, steps, 1.0, 0.0},
          {LocalRule::diloco, steps, 0.7, 0.9}};
}

/// Rank r takes r + 1 parts of the batch, so that weights count.
krama::train::TrainerOptions round_options(int ranks, std::int64_t steps,
                                           const LocalSyncOptions& local) {
  std::vector<double> shares(static_cast<std::size_t>(ranks));
  std::iota(shares.begin(), shares.end(), 1.0);
  return {.global_batch = batch,
          .steps = steps,
          .seed = 9,
          .shares = {.fixed = shares},
          .fingerprint_every = 1,
          .local = local,
          .executor = {.micro_batch = 5, .bucket_elements = 256}};
}
template <class A>
bool same_everywhere(krama::MpiComm& comm, const std::vector<A>& v) {
  const std::string_view mine(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(A));
  const auto all = comm.gather_text(mine, "bits");
  return std::all_of(all.begin(), all.end(), [&](const auto& t) { return t == mine; });
}
double worst(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}
std::string name_of(const LocalSyncOptions& o) {
  return std::string(krama::train::name_of(o.rule));
}

/// A loop of one's own: an executor alone on every rank, and LocalSync. Gives the values and, for each
/// round, the loss over all ranks.
std::pair<std::vector<float>, std::vector<double>> own_loop(krama::MpiComm& world,
                                                            const krama::train::LabelledRows& data,
                                                            std::int64_t steps,
                                                            const LocalSyncOptions& local) {
  const krama::exec_of<D> exec;
  const auto model = krama::models::mlp<D, float>({{2, 24, 2}});
  auto store = model.make_store(exec, 1);
  const auto o = round_options(world.size(), steps, local);
  krama::Executor<D, float, krama::nn::CrossEntropy, krama::optim::AdamW, krama::SelfComm> executor(
      exec, model, store, {}, {}, krama::SelfComm("own"), o.executor);
  krama::train::LocalSync<D, float, krama::MpiComm> sync(exec, store, world, local);
  krama::train::Feeder<D, float, krama::nn::CrossEntropy, krama::train::LabelledRows> feeder(exec,
                                                                                             data);
  krama::train::SampleSequence sequence(o.seed, data.size());
  const auto shares = krama::plan::split_batch(batch, o.shares.fixed);
  const auto first =
      std::accumulate(shares.begin(), shares.begin() + world.rank(), std::int64_t{0});
  const std::int64_t mine = shares[static_cast<std::size_t>(world.rank())];
  std::vector<double> losses;
  std::array<double, 2> sums{};
  for (std::int64_t s = 0; s < steps; ++s) {
    const auto ids = sequence.ids(s * batch + first, mine);
    const auto outcome = executor.step(static_cast<std::uint32_t>(s), o.seed, 0.02, first, mine,
                                       feeder.feed(ids, o.executor.micro_batch));
    sums[0] += outcome.loss_sum;
    sums[1] += outcome.weight;
    const bool ended = sync.after_step(outcome.weight);
    if (!ended && s + 1 < steps) continue;
    world.sum_in_rank_order(sums, "loss");
    losses.push_back(sums[0] / sums[1]);
    sums = {};
  }
  sync.settle();
  return {krama::download(exec, store.values()), losses};
}

/// Values after 40 steps of plain SGD.
template <class T, class Comm, class Source>
std::vector<double> after_sgd(Comm comm, const krama::nn::Model<D, T>& model, const Source& source,
                              double lr, const std::optional<LocalSyncOptions>& local) {
  const krama::exec_of<D> exec;
  auto store = model.make_store(exec, 1);
  auto o = round_options(comm.size(), 40, {});
  o.local = local;
  o.on_shares = [](const krama::plan::ShareChange&) {};
  krama::train::Trainer<D, T, krama::nn::CrossEntropy, krama::optim::Sgd, Comm> trainer(
      exec, model, store, {}, {}, krama::optim::Schedule::constant(lr), comm, o);
  trainer.fit(source);
  const auto values = krama::download(exec, store.values());
  return {values.begin(), values.end()};
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("rounds: with one step, plain SGD and a rate of 1 they are synchronous training",
          "[train]") {
  auto world = krama::MpiComm::world();
  const auto compare = [&](const auto& make, const auto& source) {
    for (const double lr : {0.05, 0.5}) {
      const krama::SelfComm alone("alone");
      const auto exact = after_sgd<double>(alone, make(1.0), source, lr, {});
      const auto one = after_sgd<float>(alone, make(1.0F), source, lr, {});
      CHECK(distance(one, exact) > 0);
      for (const auto rule : {LocalRule::blocking, LocalRule::diloco}) {
        const auto rounds =
            after_sgd<float>(world, make(1.0F), source, lr, LocalSyncOptions{.rule = rule});
        CAPTURE(lr, krama::train::name_of(rule));
        CHECK(distance(rounds, exact) <= 2 * distance(one, exact));
      }
    }
  };
  compare([]<class T>(T) { return krama::models::mlp<D, T>({{2, 24, 2}}); }, points(90));
  std::vector<std::uint8_t> text;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    text.push_back(static_cast<std::uint8_t>(97 + 25 * krama::uniform({3, 0, 0}, i)));
  }
  compare(
      []<class T>(T) {
        return krama::models::gpt<D, T>(
            {.vocabulary = 128, .context = 16, .features = 16, .layers = 1, .heads = 2});
      },
      krama::train::TextSource(text, 16, "letters"));
}

TEST_CASE("rounds: the trainer's are LocalSync in a loop of one's own, reports are of all ranks",
          "[train]") {
  auto world = krama::MpiComm::world();
  const auto data = points(31);
  for (const auto& local : every_rule(3)) {
    CAPTURE(name_of(local));
    const auto [wanted, losses] = own_loop(world, data, 11, local);
    Setup<float, krama::MpiComm> s(world, round_options(world.size(), 11, local));
    const auto before = s.values();
    std::vector<double> told;
    std::vector<std::int64_t> ends;
    std::vector<bool> fourth;
    s.trainer.fit(data, [&](const krama::train::StepReport& r) {
      told.push_back(r.outcome.loss());
      ends.push_back(r.step);
      fourth.push_back(r.is_time(4));
      CHECK(r.steps == (r.step == 11 ? 2 : 3));
      CHECK(r.outcome.weight == Catch::Approx(static_cast<double>(batch * r.steps)));
      CHECK(r.outcome.grad_norm > 0);
      CHECK(r.outcome.rank_seconds.size() == static_cast<std::size_t>(world.size()));
      CHECK(r.fraction == Catch::Approx(static_cast<double>(r.step) / 11.0));
      return true;
    });
    CHECK(ends == std::vector<std::int64_t>{3, 6, 9, 11});
    CHECK(fourth == std::vector<bool>{false, true, true, false});
    CHECK(same_bits(wanted, s.values()));
    CHECK(same_everywhere(world, s.values()));
    CHECK_FALSE(same_bits(before, s.values()));
    REQUIRE(told.size() == losses.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      CHECK(told[i] == Catch::Approx(losses[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("rounds: restored, a run goes on bit for bit", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "rounds.safetensors";
  const auto data = points(31);
  for (const auto& local : every_rule(3)) {
    CAPTURE(name_of(local));
    const int ranks = world.size();
    auto interrupted = round_options(ranks, 14, local);
    interrupted.stop_after = 5;  // between rounds, so after step 6
    Setup<float, krama::MpiComm> first(world, interrupted);
    first.trainer.fit(data);
    CHECK(first.trainer.steps_done() == 6);
    krama::train::save_checkpoint(first.exec, first.trainer, file);
    const auto saved = first.values();

    Setup<float, krama::MpiComm> second(world, round_options(ranks, 14, local));
    krama::train::load_checkpoint(second.exec, second.trainer, file);
    CHECK(same_bits(saved, second.values()));
    CHECK(second.trainer.steps_done() == 6);
    CHECK(second.trainer.local()->sync().rounds() == first.trainer.local()->sync().rounds());
    second.trainer.fit(data);

    // The run that was saved goes on to the same bits; so does one that was never interrupted, but
    // where the average travels beside the next steps: there a save waits for it.
    Setup<float, krama::MpiComm> whole(world, round_options(ranks, 14, local));
    if (local.rule == LocalRule::cocod) {
      whole.trainer.fit(data, [&](const krama::train::StepReport& r) {
        if (r.step == 6) krama::train::save_checkpoint(whole.exec, whole.trainer, file);
        return true;
      });
    } else {
      whole.trainer.fit(data);
    }
    CHECK(same_bits(whole.values(), second.values()));
    CHECK_FALSE(same_bits(saved, second.values()));
  }
}

TEST_CASE("rounds: a checkpoint serves other numbers of ranks, and training without rounds",
          "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "rounds.safetensors";
  const auto data = points(31);
  const LocalSyncOptions local{LocalRule::diloco, 2, 0.7, 0.9};
  Setup<double, krama::MpiComm> many(world, round_options(world.size(), 4, local));
  many.trainer.fit(data);
  krama::train::save_checkpoint(many.exec, many.trainer, file);
  const auto saved = many.values();
  world.barrier("written");

  Setup<double, krama::SelfComm> alone(krama::SelfComm("alone"), round_options(1, 8, local));
  krama::train::load_checkpoint(alone.exec, alone.trainer, file);
  CHECK(same_bits(saved, alone.values()));
  alone.trainer.fit(data);
  CHECK(alone.trainer.steps_done() == 8);

  auto plain = round_options(world.size(), 8, local);
  plain.local.reset();
  Setup<double, krama::MpiComm> synchronous(world, plain);
  krama::train::load_checkpoint(synchronous.exec, synchronous.trainer, file);
  CHECK(same_bits(saved, synchronous.values()));
  synchronous.trainer.fit(data);
  krama::train::save_checkpoint(synchronous.exec, synchronous.trainer, file);
  // And rounds go on from training without them.
  Setup<double, krama::MpiComm> again(world, round_options(world.size(), 10, local));
  krama::train::load_checkpoint(again.exec, again.trainer, file);
  CHECK(same_bits(synchronous.values(), again.values()));
  again.trainer.fit(data);
  CHECK(again.trainer.steps_done() == 10);
  CHECK(same_everywhere(world, again.values()));
}

TEST_CASE("rounds: an evaluation is of the average and changes nothing", "[train]") {
  auto world = krama::MpiComm::world();
  const auto data = points(31);
  for (const auto& local : every_rule(3)) {
    CAPTURE(name_of(local));
    Setup<float, krama::MpiComm> quiet(world, round_options(world.size(), 12, local));
    quiet.trainer.fit(data);
    Setup<float, krama::MpiComm> s(world, round_options(world.size(), 12, local));
    Setup<float, krama::SelfComm> alone(krama::SelfComm("alone"), round_options(1, 1, local));
    s.trainer.fit(data, [&](const krama::train::StepReport&) {
      const double loss = s.trainer.evaluate(data);
      const auto anchor = krama::download(s.exec, s.trainer.local()->sync().anchor());
      CHECK(same_everywhere(world, anchor));
      krama::upload(alone.exec, alone.store.values(), std::span<const float>(anchor));
      CHECK(loss == Catch::Approx(alone.trainer.evaluate(data)).epsilon(1e-5));
      return true;
    });
    CHECK(same_bits(quiet.values(), s.values()));
  }
}

TEST_CASE("rounds: ranks of a group train one replica", "[train]") {
  auto world = krama::MpiComm::world();
  const auto data = points(31);
  const auto ranks = static_cast<std::size_t>(world.size());
  const LocalSyncOptions local{LocalRule::blocking, 3, 1.0, 0.0};

  // All in one group: training without rounds.
  auto one = round_options(world.size(), 9, local);
  one.local_groups.assign(ranks, 0);
  Setup<double, krama::MpiComm> together(world, one);
  together.trainer.fit(data);
  one.local.reset();
  one.local_groups.clear();
  Setup<double, krama::MpiComm> plain(world, one);
  plain.trainer.fit(data);
  CHECK(worst(together.values(), plain.values()) < 1e-12);

  // Two groups are two ranks that have their samples.
  if (ranks < 3) return;
  for (const auto& rule : every_rule(2)) {
    CAPTURE(name_of(rule));
    auto o = round_options(world.size(), 9, rule);
    for (std::size_t r = 0; r < ranks; ++r) o.local_groups.push_back(r < 2 ? 0 : 1);
    Setup<double, krama::MpiComm> s(world, o);
    CHECK(s.trainer.group_comm().size() == (world.rank() < 2 ? 2 : world.size() - 2));
    s.trainer.fit(data);
    CHECK(same_everywhere(world, s.values()));

    auto pair =
        world.split(world.rank() < 2 ? std::optional<int>(0) : std::nullopt, world.rank(), "pair");
    if (!pair) continue;
    auto two = round_options(2, 9, rule);
    const auto& shares = s.trainer.shares().shares();
    two.shares.fixed = {static_cast<double>(shares[0] + shares[1]),
                        static_cast<double>(batch - shares[0] - shares[1])};
    Setup<double, krama::MpiComm> both(*pair, two);
    both.trainer.fit(data);
    CHECK(worst(both.values(), s.values()) < 1e-9);
  }
}

TEST_CASE("rounds: what one rank cannot do ends the round on all, values are those before it",
          "[train]") {
  auto world = krama::MpiComm::world();
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 24; ++i) {
    x.insert(x.end(), {0.1F * static_cast<float>(i), 0.5F});
    y.push_back(i % 2);
  }
  // One rank meets it in the first round.
  x[0] = std::numeric_limits<float>::quiet_NaN();
  const krama::train::LabelledRows bad(x, y, 2, 2, "bad rows");
  for (const auto& local : every_rule(2)) {
    CAPTURE(name_of(local));
    Setup<float, krama::MpiComm> s(world, round_options(world.size(), 40, local));
    std::vector<float> last = s.values();
    const auto note = [&](const krama::train::StepReport&) {
      last = krama::download(s.exec, s.trainer.local()->sync().anchor());
      return true;
    };
    CHECK_THROWS_WITH(s.trainer.fit(bad, note),
                      ContainsSubstring("not finite") && ContainsSubstring("rank "));
    CHECK(s.trainer.steps_done() == 0);  // two steps are an epoch
    CHECK(same_everywhere(world, s.values()));
    CHECK(same_bits(last, s.values()));
  }
}

TEST_CASE("rounds: each group scales its own loss, and goes on with it", "[train]") {
  auto world = krama::MpiComm::world();
  const SharedFolder folder(world);
  const auto file = folder.path() / "scaled.safetensors";
  const auto data = points(31);
  const LocalSyncOptions local{LocalRule::diloco, 3, 0.7, 0.9};
  const auto scaled = [&](std::int64_t steps) {
    auto o = round_options(world.size(), steps, local);
    // Ranks with more samples overflow more often.
    o.executor.loss_scaling = {.initial = 0x1p20, .growth_interval = 3};
    o.executor.clip_norm = 0.5;
    return o;
  };
  Setup<krama::f16, krama::MpiComm> whole(world, scaled(18));
  bool skipped = false;
  whole.trainer.fit(data, [&](const krama::train::StepReport& r) {
    skipped = skipped || r.outcome.skipped;
    CHECK(std::isfinite(r.outcome.loss()));
    return true;
  });
  CHECK(skipped);
  Setup<krama::f16, krama::MpiComm> first(world, scaled(9));
  first.trainer.fit(data);
  krama::train::save_checkpoint(first.exec, first.trainer, file);
  Setup<krama::f16, krama::MpiComm> second(world, scaled(18));
  krama::train::load_checkpoint(second.exec, second.trainer, file);
  const auto text = [](auto& s) { return s.trainer.executor().loss_scaler().text(); };
  CHECK(text(second) == text(first));
  CHECK(second.trainer.executor().updates() == first.trainer.executor().updates());
  second.trainer.fit(data);
  CHECK(same_bits(whole.values(), second.values()));
  CHECK(text(whole) == text(second));
}

TEST_CASE("rounds: shares follow speed between rounds", "[train]") {
  auto world = krama::MpiComm::world();
  auto o = round_options(world.size(), 48, {LocalRule::cocod, 4, 1.0, 0.0});
  o.shares = {};
  const int ranks = world.size();
  // The last rank says that it is ten times as slow; nobody waits.
  o.executor.after_backward = [&world, ranks](std::int64_t samples, double seconds) {
    const double wanted = (world.rank() == ranks - 1 ? 10e-4 : 1e-4) * static_cast<double>(samples);
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(std::max(0.0, wanted - seconds));
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  Setup<double, krama::MpiComm> s(world, o);
  const auto start = s.trainer.shares().shares();
  s.trainer.fit(points(31), [&](const krama::train::StepReport& r) {
    CHECK(std::accumulate(r.samples.begin(), r.samples.end(), std::int64_t{0}) == batch);
    return true;
  });
  const auto& log = s.trainer.shares().log().changes();
  for (const auto& c : log) CHECK(c.step % 4 == 0);
  if (ranks > 1) CHECK(s.trainer.shares().shares().back() < start.back());
  CHECK(same_everywhere(world, s.values()));
}

TEST_CASE("rounds: what cannot be is refused on every rank", "[train]") {
  auto world = krama::MpiComm::world();
  using S = Setup<float, krama::MpiComm>;
  const LocalSyncOptions local{LocalRule::blocking, 2, 1.0, 0.0};
  const auto normed = [] {
    using namespace krama::nn;
    Model<D, float> m;
    auto x = m.input("x", {2});
    x = m.block("hidden",
                chain(named("linear", Linear{.in_features = 2, .out_features = 24}),
                      named("norm", BatchNorm{.channels = 24})),
                x);
    m.block("head", Linear{.in_features = 24, .out_features = 2}, x);
    return m;
  };
  CHECK_THROWS_WITH(S(world, round_options(world.size(), 2, local), normed()),
                    ContainsSubstring("BatchNorm"));
  {
    auto far = round_options(world.size(), 2, local);
    const int last = world.size() - 1;
    const bool mine = world.rank() == last;  // the other ranks are told as well
    far.executor.weights_budget = mine ? 1 << 20 : 0;
    CHECK_THROWS_WITH(S(world, far, krama::models::mlp<D, float>({{2, 24, 2}}),
                        mine ? std::optional(krama::TierOptions{}) : std::nullopt),
                      ContainsSubstring(fmt::format("rank {} lie in far memory", last)));
  }
  auto o = round_options(world.size(), 2, {LocalRule::blocking, 0, 1.0, 0.0});
  CHECK_THROWS_WITH(S(world, o), ContainsSubstring("rounds of 0 steps"));
  o = round_options(world.size(), 2, {LocalRule::cocod, 2, 0.7, 0.9});
  CHECK_THROWS_WITH(S(world, o), ContainsSubstring("cocod has not"));
  o = round_options(world.size(), 2, local);
  o.local_groups.assign(static_cast<std::size_t>(world.size()), 1);
  CHECK_THROWS_WITH(S(world, o), ContainsSubstring("no rank is of group 0"));
  o.local_groups.assign(static_cast<std::size_t>(world.size()) + 1, 0);
  CHECK_THROWS_WITH(S(world, o), ContainsSubstring("groups are given"));
  o.local_groups.assign(static_cast<std::size_t>(world.size()), 0);
  o.local.reset();
  CHECK_THROWS_WITH(S(world, o), ContainsSubstring("no rounds of local steps"));
  CHECK_THROWS_WITH(krama::train::parse_local_rule("gossip"), ContainsSubstring("gossip"));
  // Replicas that differ when training begins.
  if (world.size() == 1) return;
  S s(world, round_options(world.size(), 2, local));
  if (world.rank() == 1) krama::fill(s.exec, s.store.values(), 0.5F);
  CHECK_THROWS_WITH(s.trainer.fit(points(31)), ContainsSubstring("rank 1"));
}
