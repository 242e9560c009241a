// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

/// The project's own small timing tool. A benchmark checks every variant against a naive reference,
/// times the variants in turn (A B C C B A …) in one process, and states bars; the exit code says
/// whether all checks and bars hold.
namespace krama::bench {

/// Call first in main: takes away settings that would slow one of the peers (OpenBLAS reads its
/// variables when it is loaded, so the program starts itself again), and settles the thread count.
inline void clean_environment(char** argv) {
  bool again = false;
  for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "KRAMA_GEMM", "KRAMA_CONV"}) {
    if (std::getenv(name) != nullptr) {
      unsetenv(name);
      again = true;
    }
  }
  const auto settle = [&again](const char* name, const char* value) {
    if (std::getenv(name) == nullptr) {
      setenv(name, value, 1);
      again = true;
    }
  };
  settle("OMP_NUM_THREADS", "2");
  settle("OMP_PROC_BIND", "false");
  if (again) execv("/proc/self/exe", argv);
}

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// How often the kernel has taken a core away from this process.
inline long preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

inline double median(std::vector<double> v) {
  if (v.empty()) return std::nan("");
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

/// One way to do the work; `run` returns when the work is done (fence inside).
struct Variant {
  std::string name;
  std::function<void()> run;
};

/// Times of the variants of one comparison, in the order given.
class Timings {
 public:
  explicit Timings(std::size_t variants) : samples_(variants) {}
  void add(std::size_t variant, double seconds) { samples_[variant].push_back(seconds); }
  /// Seconds for one run.
  [[nodiscard]] double seconds(std::size_t variant) const { return median(samples_[variant]); }
  /// Time of `a` over time of `b`: the median over rounds, each measured side by side.
  [[nodiscard]] double ratio(std::size_t a, std::size_t b) const { return median(ratios(a, b)); }
  /// Whether the 95 % interval of that ratio (its order statistics) holds `bound`, so that more
  /// rounds could change the verdict.
  [[nodiscard]] bool undecided(std::size_t a, std::size_t b, double bound) const {
    std::vector<double> r = ratios(a, b);
    std::sort(r.begin(), r.end());
    const auto n = static_cast<double>(r.size());
    const double spread = 0.98 * std::sqrt(n);
    if (n / 2 <= spread + 1) return true;
    const auto at = [&](double rank) { return r[static_cast<std::size_t>(rank)]; };
    return at(n / 2 - spread - 1) <= bound && bound <= at(std::min(n / 2 + spread, n - 1));
  }
  [[nodiscard]] std::size_t rounds() const { return samples_.front().size(); }

 private:
  [[nodiscard]] std::vector<double> ratios(std::size_t a, std::size_t b) const {
    std::vector<double> r;
    for (std::size_t i = 0; i < std::min(samples_[a].size(), samples_[b].size()); ++i) {
      r.push_back(samples_[a][i] / samples_[b][i]);
    }
    return r;
  }
  std::vector<std::vector<double>> samples_;
};

enum class Better { lower, higher };

/// Table on stdout, JSON lines in $KRAMA_BENCH_JSON (default: <suite>.jsonl in the folder that the
/// build names, or the current one), bars at the end.
class Report {
 public:
  explicit Report(std::string suite) : suite_(std::move(suite)) {
#ifdef KRAMA_BENCH_DIR
    const std::string folder = KRAMA_BENCH_DIR "/";
#else
    const std::string folder;
#endif
    const char* given = std::getenv("KRAMA_BENCH_JSON");
    const std::string path = given != nullptr ? given : folder + suite_ + ".jsonl";
    json_ = std::fopen(path.c_str(), given != nullptr ? "a" : "w");
    if (json_ == nullptr) {
      fmt::print(stderr, "bench: cannot write \"{}\"; set KRAMA_BENCH_JSON\n", path);
      failed_ = true;
    }
  }
  ~Report() {
    if (json_ != nullptr) std::fclose(json_);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// The result of comparing a variant with a naive reference, before it is timed.
  bool check(std::string_view what, double error, double bound) {
    const bool good = error <= bound;  // false for NaN
    if (!good) {
      fmt::print("WRONG {}: error {:.3g}, at most {:.3g} allowed\n", what, error, bound);
      failed_ = true;
    }
    return good;
  }

  /// Times the variants in turn, there and back, for about `budget` seconds in all and at least five
  /// rounds. A round in which another process took a core away is repeated (up to three budgets).
  /// While `undecided` says so, it goes on for up to eight budgets. `work` (operations or bytes of one
  /// run, 0: none) gives a rate.
  Timings compare(const std::string& label, const std::vector<Variant>& variants, double work = 0,
                  double budget = 0.5,
                  const std::function<bool(const Timings&)>& undecided = nullptr) {
    std::vector<long> inner;
    for (const auto& v : variants) {
      v.run();
      const double one = timed(v, 1);
      inner.push_back(std::clamp(static_cast<long>(1e-3 / std::max(one, 1e-9)), 1L, 100000L));
      timed(v, inner.back());
    }
    Timings result(variants.size());
    const double start = seconds_now();
    int disturbed = 0;
    std::vector<double> round(variants.size());
    for (bool forward = true;; forward = !forward) {
      const double elapsed = seconds_now() - start;
      const bool enough = elapsed > budget && result.rounds() >= 5;
      const bool late = elapsed > 3 * budget && result.rounds() >= 1;
      const bool more = undecided && elapsed < 8 * budget && undecided(result);
      if ((enough || late) && !more) break;
      const long before = preemptions();
      for (std::size_t i = 0; i < variants.size(); ++i) {
        const std::size_t v = forward ? i : variants.size() - 1 - i;
        round[v] = timed(variants[v], inner[v]);
      }
      const bool quiet = preemptions() == before;
      if (!quiet) ++disturbed;
      if (quiet || elapsed > 2 * budget) {
        for (std::size_t i = 0; i < round.size(); ++i) result.add(i, round[i]);
      }
    }
    print(label, variants, result, work, disturbed);
    return result;
  }

  /// A row of the table from times taken elsewhere (by several ranks together, for instance).
  void record(const std::string& label, const std::vector<std::string>& names, const Timings& times,
              double work = 0) {
    std::vector<Variant> variants;
    for (const auto& name : names) variants.push_back({name, {}});
    print(label, variants, times, work, 0);
  }

  /// A promise: figure at most (lower is better) or at least (higher) the bound.
  void bar(std::string name, double figure, double bound, Better better = Better::lower) {
    const bool met = better == Better::lower ? figure <= bound : figure >= bound;
    bars_.push_back({std::move(name), figure, bound, met});
  }

  /// Prints the bars; the exit code of main.
  [[nodiscard]] int finish() {
    for (const auto& b : bars_) {
      fmt::print("BAR {} {:.4g} {:.4g} {}\n", b.name, b.figure, b.bound, b.met ? "met" : "missed");
      write(fmt::format(R"({{"suite":"{}","bar":"{}","figure":{:.6g},"bound":{:.6g},"met":{}}})",
                        suite_, b.name, b.figure, b.bound, b.met));
      failed_ = failed_ || !b.met;
    }
    std::fflush(stdout);
    return failed_ ? 1 : 0;
  }

 private:
  struct Bar {
    std::string name;
    double figure, bound;
    bool met;
  };

  static double timed(const Variant& v, long times) {
    const double start = seconds_now();
    for (long i = 0; i < times; ++i) v.run();
    return (seconds_now() - start) / static_cast<double>(times);
  }
  void print(const std::string& label, const std::vector<Variant>& variants, const Timings& t,
             double work, int disturbed) {
    fmt::print("{:<34}", label);
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const double s = t.seconds(i);
      fmt::print(" | {} {:.2f} us", variants[i].name, s * 1e6);
      if (work > 0) fmt::print(" {:.1f} G/s", work / s * 1e-9);
      write(fmt::format(
          R"({{"suite":"{}","case":"{}","variant":"{}","seconds":{:.6g},"work":{:.6g},"rounds":{}}})",
          suite_, label, variants[i].name, s, work, t.rounds()));
    }
    fmt::print("{}\n", disturbed > 0 ? fmt::format(" | {} rounds disturbed", disturbed) : "");
    std::fflush(stdout);
  }
  void write(const std::string& line) {
    if (json_ != nullptr) fmt::print(json_, "{}\n", line);
  }

  std::string suite_;
  std::FILE* json_ = nullptr;
  std::vector<Bar> bars_;
  bool failed_ = false;
};

}  // namespace krama::bench
