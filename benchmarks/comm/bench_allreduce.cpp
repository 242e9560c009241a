// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Krama's allreduce of floats on two ranks of one host against
//   - the bound: two exchanges of half the buffer (bidirectional point to point, the better of one
//     message and of 1 MiB messages four at a time) plus the additions of half the buffer;
//   - MPICH's own allreduce with each of its algorithms, each in a run of its own (MPICH reads the
//     choice at start). In every run Krama, the bound's parts and MPICH take turns, there and back.
// Started by itself it is the driver that starts those runs; started by mpiexec it is a run.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <krama/runtime/run.hpp>

#include "support/bench.hpp"
#include "support/job.hpp"

namespace {

using krama::bench::Timings;
using Host = Kokkos::HostSpace;

enum Part : std::size_t { own, exchange, exchange_cut, additions, mpich, parts };
const std::vector<std::string> part_names{"krama", "exchange", "exchange cut", "additions",
                                          "MPICH"};

const std::vector<std::int64_t>& sizes() {
  static const std::vector<std::int64_t> all = [] {
    std::vector<std::int64_t> s;
    for (std::int64_t kib = 64; kib <= 64 * 1024; kib *= 4) s.push_back(kib * 1024);
    return s;
  }();
  return all;
}

/// Both ranks send and receive `bytes`, in messages of `cut`, at most four of them at a time.
void both_ways(int peer, const char* out, char* in, std::int64_t bytes, std::int64_t cut) {
  std::array<MPI_Request, 8> request{};
  request.fill(MPI_REQUEST_NULL);
  const std::int64_t messages = (bytes + cut - 1) / cut;
  const auto post = [&](std::int64_t m, std::size_t slot) {
    const std::int64_t at = m * cut;
    const int n = static_cast<int>(std::min(cut, bytes - at));
    if (slot % 2 == 0) {
      MPI_Irecv(in + at, n, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &request[slot]);
    } else {
      MPI_Isend(out + at, n, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &request[slot]);
    }
  };
  std::array<std::int64_t, 2> next{};
  for (std::size_t slot = 0; slot < request.size(); ++slot) {
    if (next[slot % 2] < messages) post(next[slot % 2]++, slot);
  }
  for (;;) {
    int slot = MPI_UNDEFINED;
    MPI_Waitany(static_cast<int>(request.size()), request.data(), &slot, MPI_STATUS_IGNORE);
    if (slot == MPI_UNDEFINED) return;
    const auto s = static_cast<std::size_t>(slot);
    if (next[s % 2] < messages) post(next[s % 2]++, s);
  }
}

/// One size in one run: the parts' times, the longest of the two ranks' each.
class Size {
 public:
  Size(krama::World& world, std::int64_t bytes)
      : world_(world),
        bytes_(bytes),
        n_(bytes / 4),
        a_("a", {n_}),
        b_("b", {n_}),
        inner_(std::max<std::int64_t>(1, (4 << 20) / bytes)) {}

  /// Largest error of Krama's and of MPICH's sums.
  double check() {
    double worst = 0;
    for (const Part part : {own, mpich}) {
      for (std::int64_t i = 0; i < n_; ++i) {
        a_.data()[i] = static_cast<float>(i % 101 + world_.rank());
      }
      once(part);
      for (std::int64_t i = 0; i < n_; ++i) {
        const auto wanted = static_cast<double>(2 * (i % 101) + 1);
        worst = std::max(worst, std::abs(static_cast<double>(a_.data()[i]) - wanted));
      }
    }
    std::fill(a_.data(), a_.data() + n_, 0.0F);
    return worst;
  }

  Timings measure(int rounds) {
    Timings times(parts);
    for (std::size_t p = 0; p < parts; ++p) sample(static_cast<Part>(p));
    for (int r = 0, tries = 0; r < rounds && tries < 4 * rounds; ++tries) {
      std::array<double, parts> seconds{};
      const long before = krama::bench::preemptions();
      for (std::size_t i = 0; i < parts; ++i) {
        const std::size_t p = tries % 2 == 0 ? i : parts - 1 - i;
        seconds[p] = sample(static_cast<Part>(p));
      }
      // A round in which another process took a core away does not count, while there is time.
      double disturbed = krama::bench::preemptions() == before ? 0 : 1;
      MPI_Allreduce(MPI_IN_PLACE, &disturbed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (disturbed > 0 && tries < 3 * rounds) continue;
      for (std::size_t p = 0; p < parts; ++p) times.add(p, seconds[p]);
      ++r;
    }
    return times;
  }

 private:
  void once(Part part) {
    const int peer = 1 - world_.rank();
    // An exchange sends what the exchange before it has received, as an allreduce does: bytes that
    // nobody has written since the last time would still be in the receiver's cache.
    auto* a = reinterpret_cast<char*>(a_.data());
    auto* b = reinterpret_cast<char*>(b_.data());
    const std::int64_t half = bytes_ / 2;
    switch (part) {
      case own:
        world_.allreduce(exec_, a_.ref(), "gradients");
        break;
      case exchange:
        both_ways(peer, a, b, half, half);
        both_ways(peer, b, a, half, half);
        break;
      case exchange_cut:
        both_ways(peer, a, b, half, 1 << 20);
        both_ways(peer, b, a, half, 1 << 20);
        break;
      case additions: {
        float* __restrict__ x = a_.data();
        const float* __restrict__ y = b_.data();
        for (std::int64_t i = 0; i < n_ / 2; ++i) x[i] += y[i];
        asm volatile("" : : "r"(x) : "memory");
        break;
      }
      case mpich:
        MPI_Allreduce(MPI_IN_PLACE, a_.data(), static_cast<int>(n_), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
        break;
      case parts:
        break;
    }
  }

  double sample(Part part) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = krama::bench::seconds_now();
    for (std::int64_t i = 0; i < inner_; ++i) once(part);
    double seconds = (krama::bench::seconds_now() - start) / static_cast<double>(inner_);
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
  }

  krama::World& world_;
  Kokkos::DefaultHostExecutionSpace exec_;
  std::int64_t bytes_;
  std::int64_t n_;
  krama::Tensor<float, 1, Host> a_;
  krama::Tensor<float, 1, Host> b_;
  std::int64_t inner_;
};

/// A run: writes one line for each size to the file that the driver named.
int one_run(krama::World& world, const std::string& path) {
  KRAMA_EXPECTS(world.size() == 2, "bench_allreduce runs on 2 ranks, not {}", world.size());
  std::FILE* file = world.rank() == 0 ? std::fopen(path.c_str(), "w") : nullptr;
  KRAMA_EXPECTS(world.rank() != 0 || file != nullptr, "cannot write \"{}\"", path);
  for (const auto bytes : sizes()) {
    Size size(world, bytes);
    const double error = size.check();
    const auto times = size.measure(bytes >= (16 << 20) ? 11 : 31);
    if (file == nullptr) continue;
    std::string line = fmt::format("{} {:.9g}", bytes, error);
    for (std::size_t p = 0; p < parts; ++p) line += fmt::format(" {:.9g}", times.seconds(p));
    // Ratios are of rounds measured side by side.
    for (std::size_t p = 0; p < parts; ++p) line += fmt::format(" {:.9g}", times.ratio(own, p));
    std::fprintf(file, "%s\n", line.c_str());
    std::fflush(file);
  }
  if (file != nullptr) std::fclose(file);
  return 0;
}

struct Row {
  double error = 0;
  std::array<double, parts> seconds{};
  std::array<double, parts> own_over{};
};

/// Starts a run with one of MPICH's algorithms; empty when it did not come to a good end.
std::map<std::int64_t, Row> start_run(const std::string& self, const std::string& algorithm) {
  const std::string path = fmt::format("{}/allreduce_run.txt", KRAMA_BENCH_DIR);
  const std::string setting =
      algorithm == "auto" ? "" : "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=" + algorithm + " ";
  std::map<std::int64_t, Row> rows;
  if (!krama::bench::run_job(self, 2, fmt::format("--run '{}'", path), path, setting)) return rows;
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return rows;
  long long bytes = 0;
  Row row;
  while (std::fscanf(file, "%lld %lf", &bytes, &row.error) == 2) {
    int read = 0;
    for (auto& s : row.seconds) read += std::fscanf(file, "%lf", &s);
    for (auto& s : row.own_over) read += std::fscanf(file, "%lf", &s);
    if (read == 2 * static_cast<int>(parts)) rows[bytes] = row;
  }
  std::fclose(file);
  return rows;
}

int drive(const std::string& self) {
  krama::bench::Report report("allreduce");
  std::map<std::int64_t, double> over_bound;  // median over the runs
  // MPICH's best algorithm: the least time over the bound of its own run.
  std::map<std::int64_t, double> best_mpich;
  std::map<std::int64_t, double> over_mpich;
  std::map<std::int64_t, std::vector<double>> bounds;
  for (const std::string algorithm : {"auto", "recursive_doubling", "reduce_scatter_allgather",
                                      "ring", "tree", "recexch", "k_reduce_scatter_allgather"}) {
    const auto rows = start_run(self, algorithm);
    if (rows.size() != sizes().size()) {
      fmt::print("MPICH's {}: no result (not in this MPI?)\n", algorithm);
      continue;
    }
    for (const auto& [bytes, row] : rows) {
      const std::string label = fmt::format("{} KiB, MPICH {}", bytes / 1024, algorithm);
      report.check(label, row.error, 0);
      Timings times(parts);
      for (std::size_t p = 0; p < parts; ++p) times.add(p, row.seconds[p]);
      report.record(label, part_names, times, static_cast<double>(bytes));
      const double bound =
          std::min(row.seconds[exchange], row.seconds[exchange_cut]) + row.seconds[additions];
      bounds[bytes].push_back(row.seconds[own] / bound);
      const double mpich_over_bound = row.seconds[mpich] / bound;
      if (!best_mpich.contains(bytes) || mpich_over_bound < best_mpich[bytes]) {
        best_mpich[bytes] = mpich_over_bound;
        over_mpich[bytes] = row.own_over[mpich];
      }
    }
  }
  if (bounds.empty()) {
    fmt::print("bench_allreduce: no run came to a good end; see {}/allreduce_run.txt.log\n",
               KRAMA_BENCH_DIR);
    return 1;
  }
  for (const auto& [bytes, ratios] : bounds) {
    const std::string kib = fmt::format("allreduce_{}KiB", bytes / 1024);
    report.bar(kib + "_over_bound", krama::bench::median(ratios), 1.3);
    report.bar(kib + "_over_best_of_MPICH", over_mpich[bytes], 1.0);
  }
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--run") {
    return krama::run(argc, argv, [](krama::World& world, int, char** words) {
      return one_run(world, words[2]);
    });
  }
  const std::string self = krama::bench::own_path();
  return self.empty() ? 1 : drive(self);
}
