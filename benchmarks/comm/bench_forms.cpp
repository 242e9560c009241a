// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Allreduce along every form on emulated links: two groups of ranks whose border is ten times slower
// than the links inside, each rank with one port inside and one across. Ranks sleep while a message
// is on its way, so that two cores carry eight of them.
//   - the bound: what must cross the border (each group's sum of what the other owns, and back),
//     through the ports of the smaller group;
//   - rails: the same transfer over 1, 2 and 4 rails between two ranks.
// Started by itself it is the driver that starts those runs; started by mpiexec it is a run.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <krama/comm/choose_form.hpp>
#include <krama/runtime/run.hpp>

#include "support/bench.hpp"
#include "support/job.hpp"

namespace {

using krama::EmulatedLinks;
using krama::Form;
using krama::bench::Timings;
using Host = Kokkos::HostSpace;

constexpr krama::Link inside{20e-6, 200e6};
constexpr krama::Link across{200e-6, 20e6};
constexpr std::int64_t bytes = std::int64_t{8} << 20;
constexpr std::int64_t chunk_bytes = std::int64_t{64} << 10;

std::vector<int> groups(int ranks, int first) {
  std::vector<int> g;
  for (int r = 0; r < ranks; ++r) g.push_back(r < first ? 0 : 1);
  return g;
}
krama::FormJob job_of(const std::vector<int>& group_of) {
  krama::LinkTable links(2, inside);
  links.set(0, 1, across);
  links.set(1, 0, across);
  return {group_of, links, bytes, chunk_bytes};
}
std::vector<Form> forms(const std::vector<int>& group_of) {
  return {Form::star(), Form::ring(), Form::halving(), Form::hierarchical(group_of)};
}

struct Outcome {
  double error = 0;
  double seconds = 0;
  std::int64_t crossed = 0;
};

/// The slowest rank's time of one allreduce, the median of `rounds`.
Outcome measure(krama::World& world, const krama::MpiOptions& options,
                const std::vector<int>& group_of, int rounds) {
  auto comm = world.duplicate("bench", options);
  const Kokkos::DefaultHostExecutionSpace exec;
  const std::int64_t n = bytes / 4;
  krama::Tensor<float, 1, Host> v("v", {n});
  for (std::int64_t i = 0; i < n; ++i) v.data()[i] = static_cast<float>(i % 101 + comm.rank());
  comm.allreduce(exec, v.ref(), "v");
  Outcome out;
  const int r = comm.size();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto wanted = static_cast<double>(r * (i % 101) + r * (r - 1) / 2);
    out.error = std::max(out.error, std::abs(static_cast<double>(v.data()[i]) - wanted));
  }
  std::fill(v.data(), v.data() + n, 0.0F);
  std::vector<double> times;
  const auto crossed = [&] {
    std::int64_t sum = 0;
    const auto& to = comm.traffic().bytes_to;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (group_of[i] != group_of[static_cast<std::size_t>(comm.rank())]) sum += to[i];
    }
    return sum;
  };
  for (int i = 0; i < rounds; ++i) {
    comm.barrier("round");
    const double start = krama::bench::seconds_now();
    out.crossed -= crossed();
    comm.allreduce(exec, v.ref(), "v");
    out.crossed += crossed();
    auto ns = static_cast<std::int64_t>((krama::bench::seconds_now() - start) * 1e9);
    comm.max(std::span(&ns, 1), "slowest");
    times.push_back(static_cast<double>(ns) * 1e-9);
  }
  comm.sum(std::span(&out.crossed, 1), "crossed");
  out.crossed /= rounds;
  out.seconds = krama::bench::median(times);
  return out;
}

/// A run: one line for each form, then one for each number of rails.
int one_run(krama::World& world, const std::string& path, int first) {
  std::FILE* file = world.rank() == 0 ? std::fopen(path.c_str(), "w") : nullptr;
  KRAMA_EXPECTS(world.rank() != 0 || file != nullptr, "cannot write \"{}\"", path);
  const auto group_of = groups(world.size(), first);
  krama::MpiOptions options = world.options();
  options.chunk_bytes = chunk_bytes;
  options.chunks_in_flight = 4;
  const auto write = [&](const Outcome& o) {
    if (file == nullptr) return;
    std::fprintf(file, "%.9g %.9g %lld\n", o.error, o.seconds, static_cast<long long>(o.crossed));
  };
  for (const Form& form : forms(group_of)) {
    options.form = form;
    options.emulated = std::make_shared<EmulatedLinks>([group_of](int from, int to) {
      const bool same =
          group_of[static_cast<std::size_t>(from)] == group_of[static_cast<std::size_t>(to)];
      return same ? EmulatedLinks::Wire{inside, 0} : EmulatedLinks::Wire{across, 1};
    });
    write(measure(world, options, group_of, 7));
  }
  if (world.size() == 2) {
    options.form = Form::star();
    for (const int rails : {1, 2, 4}) {
      options.rails = rails;
      options.emulated =
          std::make_shared<EmulatedLinks>([](int, int) { return EmulatedLinks::Wire{across}; });
      write(measure(world, options, group_of, 7));
    }
  }
  if (file != nullptr) std::fclose(file);
  return 0;
}

std::vector<Outcome> start_run(const std::string& self, int ranks, int first) {
  const std::string path = fmt::format("{}/forms_run.txt", KRAMA_BENCH_DIR);
  std::vector<Outcome> rows;
  const auto n = static_cast<std::size_t>(ranks);
  if (!krama::bench::run_job(self, n, fmt::format("--run '{}' {}", path, first), path)) return rows;
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return rows;
  Outcome o;
  long long crossed = 0;
  while (std::fscanf(file, "%lf %lf %lld", &o.error, &o.seconds, &crossed) == 3) {
    o.crossed = crossed;
    rows.push_back(o);
  }
  std::fclose(file);
  return rows;
}

int drive(const std::string& self) {
  krama::bench::Report report("forms");
  struct Job {
    int ranks;
    int first;
  };
  for (const Job job : {Job{2, 1}, Job{4, 2}, Job{4, 1}, Job{8, 4}}) {
    const auto group_of = groups(job.ranks, job.first);
    const auto all = forms(group_of);
    const auto rows = start_run(self, job.ranks, job.first);
    const std::string name = fmt::format("{}+{}", job.first, job.ranks - job.first);
    if (rows.size() < all.size()) {
      fmt::print(
          "bench_forms: the run with groups of {} did not come to a good end; see "
          "{}/forms_run.txt.log\n",
          name, KRAMA_BENCH_DIR);
      return 1;
    }
    const double bound = static_cast<double>(bytes) / across.bytes_per_second /
                         std::min(job.first, job.ranks - job.first);
    const Form chosen = krama::choose_form(job_of(group_of));
    double best = rows[0].seconds;
    double of_chosen = 0;
    fmt::print("groups of {}: bound {:.1f} ms, chosen {}\n", name, bound * 1e3, chosen.name());
    for (std::size_t f = 0; f < all.size(); ++f) {
      report.check(fmt::format("{} {}", name, all[f].name()), rows[f].error, 0);
      fmt::print(
          "  {:13} {:8.1f} ms, predicted {:8.1f}; over bound {:.3f}; {} bytes across, {:.2f} "
          "of the least\n",
          all[f].name(), rows[f].seconds * 1e3,
          krama::predicted_seconds(all[f], job_of(group_of)) * 1e3, rows[f].seconds / bound,
          rows[f].crossed, static_cast<double>(rows[f].crossed) / (2.0 * bytes));
      Timings times(1);
      times.add(0, rows[f].seconds);
      report.record(fmt::format("{} {}", name, all[f].name()), {"krama"}, times,
                    static_cast<double>(bytes));
      best = std::min(best, rows[f].seconds);
      if (all[f] == chosen) of_chosen = rows[f].seconds;
    }
    report.bar(fmt::format("hierarchical_{}_over_bound", name), rows[3].seconds / bound, 1.15);
    report.bar(fmt::format("hierarchical_{}_bytes_across_over_least", name),
               static_cast<double>(rows[3].crossed) / (2.0 * bytes), 1.0);
    report.bar(fmt::format("chosen_{}_over_best", name), of_chosen / best, 1.05);
    if (job.ranks == 2) {
      const double one = rows[4].seconds;
      for (std::size_t i = 1; i < 3; ++i) {
        const double k = i == 1 ? 2 : 4;
        report.bar(fmt::format("rails_{}_over_one", k), one / rows[4 + i].seconds, 0.9 * k,
                   krama::bench::Better::higher);
      }
    }
  }
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--run") {
    return krama::run(argc, argv, [](krama::World& world, int, char** words) {
      return one_run(world, words[2], std::stoi(words[3]));
    });
  }
  const std::string self = krama::bench::own_path();
  return self.empty() ? 1 : drive(self);
}
