// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/form_test.hpp"

#include <krama/comm/find_form.hpp>

#include <catch2/catch_all.hpp>

using namespace krama::test;
using Catch::Matchers::ContainsSubstring;
using krama::Form;
using krama::Partition;

namespace {

std::vector<krama::MpiOptions> option_sets() {
  std::vector<krama::MpiOptions> all(3, world().options());
  all[1].chunk_bytes = 2048;
  all[1].chunks_in_flight = 1;
  all[1].rails = 2;
  all[2].chunk_bytes = 1024;
  all[2].chunks_in_flight = 3;
  all[2].rails = 3;
  all[2].transport = krama::Transport::staged;
  return all;
}
std::int64_t chunk_of(const krama::MpiOptions& o) {
  return std::min<std::int64_t>(o.chunk_bytes / 4, o.max_count);
}

}  // namespace

TEST_CASE("forms: sums have the bits of their tree, on all ranks", "[comm]") {
  const DeviceExec exec;
  for (const Form& form : forms(world().size())) {
    for (auto options : option_sets()) {
      options.form = form;
      auto comm = world().duplicate("form", options);
      for (const std::int64_t n : {0, 1, 257, 5000, 20000}) {
        INFO(form.name() << ", chunks of " << options.chunk_bytes << ", " << n << " elements");
        for (const auto& partition : partitions(n, comm.size())) {
          const OnDevice v(exec, values_of<float>(comm.rank(), n));
          const std::string what = "v " + std::to_string(n);
          comm.reduce_scatter(exec, v.ref(), partition, what);
          const auto wanted = sums_along<float>(form, partition, chunk_of(options));
          CHECK(same_bits(v.values(), wanted, partition.begin(comm.rank()),
                          partition.end(comm.rank())));
          comm.allgather(exec, v.ref(), partition, what);
          CHECK(same_bits(v.values(), wanted));
        }
        const OnDevice v(exec, values_of<float>(comm.rank(), n));
        comm.allreduce(exec, v.ref(), "all " + std::to_string(n));
        CHECK(same_bits(v.values(), sums_along<float>(form, Partition::even(n, comm.size()),
                                                      chunk_of(options))));
      }
    }
  }
}

TEST_CASE("forms: any number of rails gives the same bits", "[comm]") {
  const DeviceExec exec;
  std::vector<float> first;
  for (const int rails : {1, 2, 5}) {
    auto options = world().options();
    options.rails = rails;
    options.chunk_bytes = 4096;
    options.form = Form::ring();
    auto comm = world().duplicate("rails", options);
    const OnDevice v(exec, values_of<float>(comm.rank(), 30000));
    comm.allreduce(exec, v.ref(), "v");
    if (first.empty()) first = v.values();
    CHECK(same_bits(v.values(), first));
  }
}

TEST_CASE("forms: ranks with unlike forms get the same error (C05)", "[comm]") {
  const DeviceExec exec;
  auto options = world().options();
  if (world().rank() == 0) options.form = Form::ring();
  auto comm = world().duplicate("unlike", options);
  const OnDevice v(exec, std::vector<float>(100, 1.0F));
  if (comm.size() == 1) {
    CHECK_NOTHROW(comm.allreduce(exec, v.ref(), "v"));
  } else {
    CHECK_THROWS_AS(comm.allreduce(exec, v.ref(), "v"), krama::Error);
  }
}

TEST_CASE("forms: one made for another number of ranks is refused", "[comm]") {
  auto options = world().options();
  options.form = Form::hierarchical(std::vector<int>(static_cast<std::size_t>(world().size()) + 1));
  CHECK_THROWS_AS(world().duplicate("misfit", options), krama::Error);
}

TEST_CASE("forms: emulated links delay messages and change no bit", "[comm]") {
  const DeviceExec exec;
  auto options = world().options();
  options.chunk_bytes = 8192;
  options.emulated = std::make_shared<krama::EmulatedLinks>(
      [](int, int) {
        return krama::EmulatedLinks::Wire{{.latency_seconds = 1e-3, .bytes_per_second = 4e6}};
      },
      0.5, 7);
  auto comm = world().duplicate("slow", options);
  const std::int64_t n = 50000;
  const OnDevice v(exec, values_of<float>(comm.rank(), n));
  const auto begin = std::chrono::steady_clock::now();
  comm.allreduce(exec, v.ref(), "v");
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(same_bits(v.values(),
                  sums_along<float>(options.form, Partition::even(n, comm.size()), 2048)));
  // Not less than the bytes take on the link: a lower limit holds on any machine.
  const int r = comm.size();
  CHECK(seconds >= (r > 1 ? 0.9 * 2.0 * (r - 1) / r * static_cast<double>(n) * 4 / 4e6 : 0.0));
}

TEST_CASE("forms: another one holds from the next call on", "[comm]") {
  const DeviceExec exec;
  auto comm = world().duplicate("another");
  auto copy = comm;  // shares what it is told
  for (const Form& form : forms(comm.size())) {
    comm.set_form(form);
    CHECK(copy.form() == form);
    const OnDevice v(exec, values_of<float>(comm.rank(), 5000));
    copy.allreduce(exec, v.ref(), "v");
    CHECK(same_bits(v.values(), sums_along<float>(form, Partition::even(5000, comm.size()),
                                                  chunk_of(comm.options()))));
  }
}

TEST_CASE("forms: unlike wishes and misfits are the same error on all ranks", "[comm]") {
  auto comm = world().duplicate("wishes");
  const auto before = comm.form();
  CHECK_THROWS_WITH(comm.set_form(Form::hierarchical(
                        std::vector<int>(static_cast<std::size_t>(comm.size()) + 1))),
                    ContainsSubstring("another number of ranks"));
  if (comm.size() > 1) {
    CHECK_THROWS_WITH(comm.set_form(comm.rank() == 1 ? Form::ring() : Form::star()),
                      ContainsSubstring("rank 0 wants star, rank 1 ring"));
  }
  CHECK(comm.form() == before);
}

TEST_CASE("find_form: what is asked for, or a choice that all ranks share", "[comm]") {
  auto comm = world().duplicate("find");
  const auto groups = two_groups(comm.size());
  const auto topology =
      krama::make_topology(comm, groups[static_cast<std::size_t>(comm.rank())] == 0 ? "a" : "b");
  CHECK(krama::find_form(comm, topology, "ring").form == Form::ring());
  CHECK(krama::find_form(comm, topology, "deterministic").form == Form::star());
  CHECK(krama::find_form(comm, topology, "hierarchical").form ==
        Form::hierarchical(topology.group_numbers()));
  CHECK_THROWS_WITH(krama::find_form(comm, topology, "tree"),
                    ContainsSubstring("wanted automatic"));
  if (comm.size() > 1) {
    CHECK_THROWS_WITH(krama::find_form(comm, topology, comm.rank() == 0 ? "ring" : "star"),
                      ContainsSubstring("give all ranks the same"));
  }
  const auto found = krama::find_form(comm, topology, "automatic");
  comm.set_form(found.form);  // throws where ranks differ
  CHECK((found.reason.find("predicted") != std::string::npos) ==
        (comm.size() > 2 && topology.groups() > 1));
}
