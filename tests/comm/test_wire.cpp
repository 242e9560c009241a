// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/form_test.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <memory>

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;
using krama::Form;
using krama::Partition;
using krama::WireEncoding;
using krama::WireFormat;

namespace {

const std::vector<WireFormat> rounded{WireFormat::bf16, WireFormat::f16, WireFormat::int8};

std::vector<krama::MpiOptions> wire_option_sets() {
  std::vector<krama::MpiOptions> all(3, world().options());
  all[1].chunk_bytes = 2048;
  all[1].chunks_in_flight = 1;
  all[1].rails = 2;
  all[2].chunk_bytes = 1000;  // cuts that no block of a format knows
  all[2].chunks_in_flight = 3;
  all[2].transport = krama::Transport::staged;
  return all;
}

krama::RandomKey key(int rank, std::uint32_t step) {
  return {11, static_cast<std::uint32_t>(100 + rank), step};
}

/// Starts a sum and waits for it.
template <class Comm, class V>
void reduce(Comm& comm, const DeviceExec& exec, const V& v, const Partition& partition,
            const std::string& what, const WireEncoding& wire) {
  auto sum = comm.start_reduce_scatter(exec, v.ref(), partition, what, wire);
  if (sum) sum->wait();
}

/// The exact sum of element i, and the largest error that one rounding of a partial sum can make.
double sum_of(int ranks, std::int64_t i) {
  double s = 0;
  for (int r = 0; r < ranks; ++r) s += static_cast<double>(value<float>(r, i));
  return s;
}
double error_of(WireFormat f, int ranks) {
  double largest = 0;  // of any partial sum
  for (int r = 0; r < ranks; ++r) {
    largest += 5010 * 0.37 / (1 + static_cast<double>(r) * r * 53);
  }
  return f == WireFormat::bf16  ? largest / 256
         : f == WireFormat::f16 ? std::max(largest / 2048, 0x1p-25)
                                : largest / 126;
}

}  // namespace

TEST_CASE("wire: any format, form and cut gives sums within its error, replicas the same bits",
          "[comm]") {
  const DeviceExec exec;
  const int ranks = world().size();
  for (const Form& form : forms(ranks)) {
    for (auto options : wire_option_sets()) {
      options.form = form;
      auto comm = world().duplicate("wire", options);
      for (const auto f : rounded) {
        for (const std::int64_t n : {0, 1, 257, 5000}) {
          for (const auto& partition : partitions(n, ranks)) {
            INFO(form.name() << ", " << krama::name_of(f) << ", " << n);
            const OnDevice v(exec, values_of<float>(comm.rank(), n));
            const std::string what = std::string(krama::name_of(f)) + std::to_string(n);
            reduce(comm, exec, v, partition, what, {f, {}, key(comm.rank(), 0), 0});
            comm.allgather(exec, v.ref(), partition, what);
            const auto all = v.values();
            double worst = 0;
            for (std::int64_t i = 0; i < n; ++i) {
              const double got = static_cast<double>(all[static_cast<std::size_t>(i)]);
              worst = std::max(worst, std::abs(got - sum_of(ranks, i)));
            }
            // Every rank but the owner rounds once; f32 additions are little beside that.
            CHECK(worst <= 1.01 * (ranks - 1) * error_of(f, ranks) + 1e-3);
            const std::string bytes(reinterpret_cast<const char*>(all.data()),
                                    all.size() * sizeof(float));
            for (const auto& theirs : comm.gather_text(bytes, "replicas")) CHECK(theirs == bytes);
          }
        }
      }
    }
  }
}

TEST_CASE("wire: bytes on the wire are those of the format", "[comm]") {
  const DeviceExec exec;
  for (const Form& form : forms(world().size())) {
    auto options = world().options();
    options.form = form;
    auto comm = world().duplicate("bytes", options);
    const std::int64_t n = 256 * 12 * 4;
    const auto partition = Partition::even(n, comm.size());
    for (const auto f : {WireFormat::f32, WireFormat::bf16, WireFormat::f16, WireFormat::int8}) {
      std::int64_t sent = 0;
      std::int64_t received = 0;
      for (int call = 0; call < 2; ++call) {  // the first compares signatures too
        const OnDevice v(exec, values_of<float>(comm.rank(), n));
        const auto before = comm.traffic();
        reduce(comm, exec, v, partition, std::string(krama::name_of(f)), {f, {}, {}, 0});
        sent = comm.traffic().bytes_sent - before.bytes_sent;
        received = comm.traffic().bytes_received - before.bytes_received;
      }
      // Each element that this rank does not own leaves it once, in any form.
      CHECK(sent == krama::wire_bytes(f, n - partition.count(comm.rank())));
      std::int64_t totals[] = {sent, received};
      comm.sum(totals, "totals");
      CHECK(totals[0] == totals[1]);
    }
  }
}

TEST_CASE("wire: what arrived over many steps is what was sent up to one residual", "[comm]") {
  const DeviceExec exec;
  const int ranks = world().size();
  const std::int64_t n = 3000;
  const int steps = 12;
  for (const auto f : rounded) {
    for (const bool feedback : {true, false}) {
      auto options = world().options();
      options.chunk_bytes = 4096;
      auto comm = world().duplicate("feedback", options);
      const auto all_forms = forms(ranks);
      std::vector<float> residual(static_cast<std::size_t>(n), 0.0F);
      std::vector<double> arrived(static_cast<std::size_t>(n), 0.0);
      const auto partition = Partition::even(n, ranks);
      for (int s = 0; s < steps; ++s) {
        // A change of form in between leaves the residuals valid.
        comm.set_form(all_forms[static_cast<std::size_t>(s / 3) % all_forms.size()]);
        const OnDevice v(exec, values_of<float>(comm.rank(), n));
        WireEncoding wire{f, {}, key(comm.rank(), static_cast<std::uint32_t>(s)), 0};
        if (feedback) wire.residual = residual;
        reduce(comm, exec, v, partition, "v", wire);
        const auto now = v.values();
        for (std::int64_t i = partition.begin(comm.rank()); i < partition.end(comm.rank()); ++i) {
          const auto k = static_cast<std::size_t>(i);
          arrived[k] += static_cast<double>(now[k]);
        }
      }
      std::vector<double> left(residual.begin(), residual.end());
      for (std::int64_t i = partition.begin(comm.rank()); i < partition.end(comm.rank()); ++i) {
        CHECK(left[static_cast<std::size_t>(i)] == 0.0);  // what is owned is never sent
      }
      comm.sum_in_rank_order(left, "residuals");
      comm.sum_in_rank_order(arrived, "arrived");
      double worst = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        worst = std::max(worst, std::abs(arrived[k] + left[k] - steps * sum_of(ranks, i)));
      }
      if (feedback) CHECK(worst < steps * ranks * 5000 * 0x1p-23);  // f32 additions
      if (!feedback && ranks > 1 && f != WireFormat::int8) CHECK(worst > 1e-2);
      double most = 0;
      for (const float r : residual) most = std::max(most, std::abs(static_cast<double>(r)));
      // One rounding of a partial sum with a residual in it.
      CHECK(most <= 1.1 * error_of(f, ranks));
    }
  }
}

TEST_CASE("wire: sums under way together keep their formats and residuals apart", "[comm]") {
  const DeviceExec exec;
  auto options = world().options();
  options.chunk_bytes = 1024;
  options.form = Form::ring();
  auto comm = world().duplicate("together", options);
  const std::int64_t n = 4000;
  const auto partition = Partition::even(n, comm.size());
  const auto run = [&](bool together) {
    std::vector<std::unique_ptr<OnDevice<float>>> v;
    std::vector<std::vector<float>> residual(4, std::vector<float>(static_cast<std::size_t>(n)));
    std::vector<krama::Pending> sums;
    for (std::size_t k = 0; k < 4; ++k) {
      v.push_back(std::make_unique<OnDevice<float>>(exec, values_of<float>(comm.rank(), n)));
      const WireEncoding wire{k == 0 ? WireFormat::f32 : rounded[k - 1], residual[k],
                              key(comm.rank(), static_cast<std::uint32_t>(k)), 0};
      sums.push_back(comm.start_reduce_scatter(exec, v.back()->ref(), partition,
                                               "sum " + std::to_string(k), wire));
      if (!together && sums.back()) sums.back()->wait();
      for (const auto& s : sums) {
        if (s) s->poll();
      }
    }
    for (auto s = sums.rbegin(); s != sums.rend(); ++s) {
      if (*s) (*s)->wait();
    }
    std::vector<float> all;
    for (std::size_t k = 0; k < 4; ++k) {
      const auto now = v[k]->values();
      all.insert(all.end(), now.begin() + partition.begin(comm.rank()),
                 now.begin() + partition.end(comm.rank()));
      all.insert(all.end(), residual[k].begin(), residual[k].end());
    }
    return all;
  };
  CHECK(same_bits(run(true), run(false)));
}

TEST_CASE("wire: unlike wishes are the same error on every rank, before anything is sent",
          "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("unlike");
  const OnDevice v(exec, values_of<float>(comm.rank(), 1000));
  const auto partition = Partition::even(1000, comm.size());
  const WireEncoding mine{comm.rank() == 0 ? WireFormat::bf16 : WireFormat::f16, {}, {}, 0};
  if (comm.size() == 1) {
    CHECK_NOTHROW(reduce(comm, exec, v, partition, "v", mine));
    return;
  }
  CHECK_THROWS_WITH(reduce(comm, exec, v, partition, "v", mine), ContainsSubstring("as bf16") &&
                                                                     ContainsSubstring("as f16") &&
                                                                     ContainsSubstring("rank 0"));
  reduce(comm, exec, v, partition, "v", {WireFormat::bf16, {}, {}, 0});  // as good as before
}
