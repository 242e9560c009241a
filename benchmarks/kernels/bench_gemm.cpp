// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// bench_gemm [PART [SECONDS [doors]]]: Krama's door for matrix products against oneDNN and OpenBLAS called
// directly, for square sizes and for the shapes of the models. PART selects problems whose name
// contains it; SECONDS is the time for each (default 0.4). With the third word each of the door's
// ways is timed as well: what gemm_rule is derived from.
//
// Bars: the door takes at most 5 % or 200 ns longer than the better of the two; the portable kernel
// reaches 40 % of oneDNN's speed at 1024^3.

#include "kernels/gemm_peers.hpp"
#include "support/bench.hpp"

#include <cstdlib>

using namespace krama;
using namespace krama::bench;
using kernels::ForcedGemmDoor;
using kernels::GemmDoor;

namespace {

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const std::int64_t s :
       {16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}) {
    all.push_back({fmt::format("square {}", s), Op::none, Op::none, s, s, s, 0.0F, 1});
  }
  // A linear layer's three products: y = x w^T, dx = dy w, dw += dy^T x.
  const auto linear = [&all](const char* model, std::int64_t rows, std::int64_t out,
                             std::int64_t in) {
    const std::string name = fmt::format("{} {}x{}x{}", model, rows, out, in);
    all.push_back({name + " y", Op::none, Op::transpose, rows, out, in, 0.0F, 1});
    all.push_back({name + " dx", Op::none, Op::none, rows, in, out, 0.0F, 1});
    all.push_back({name + " dw", Op::transpose, Op::none, out, in, rows, 1.0F, 1});
  };
  const auto gpt = [&](const char* name, std::int64_t d) {
    linear(name, 2048, 3 * d, d);
    linear(name, 2048, d, d);
    linear(name, 2048, 4 * d, d);
    linear(name, 2048, d, 4 * d);
    linear(name, 2048, 256, d);
  };
  gpt("gpt128", 128);
  gpt("gpt384", 384);
  for (const std::int64_t rows : {32, 128, 1024}) {
    linear("mlp", rows, 256, 784);
    linear("mlp", rows, 10, 256);
  }
  const auto attention = [&all](std::int64_t tokens, std::int64_t features, std::int64_t heads) {
    const std::string name = fmt::format("attention {}x{}", tokens, features);
    all.push_back({name + " qk", Op::none, Op::transpose, tokens, tokens, features, 0.0F, heads});
    all.push_back({name + " pv", Op::none, Op::none, tokens, features, tokens, 0.0F, heads});
    all.push_back({name + " dv", Op::transpose, Op::none, tokens, features, tokens, 0.0F, heads});
  };
  attention(128, 32, 64);
  attention(256, 64, 48);
  return all;
}

template <class T>
void door(const Problem& p, Data<T>& d) {
  const Kokkos::DefaultHostExecutionSpace exec;
  kernels::batched_gemm_strided(exec, p.ta, p.tb, p.m, p.n, p.k, 1.0F,
                                static_cast<const T*>(d.a.data()), p.lda(), p.m * p.k,
                                static_cast<const T*>(d.b.data()), p.ldb(), p.n * p.k, p.beta,
                                d.c.data(), p.n, p.m * p.n, p.batch);
}

/// Runs and checks each variant once, then times them.
template <class T>
Timings measure(Report& report, const Problem& p, Data<T>& d, const std::vector<Variant>& variants,
                double budget, const std::function<bool(const Timings&)>& undecided = nullptr) {
  for (const auto& v : variants) {
    std::fill(d.c.begin(), d.c.end(), 1.0F);
    v.run();
    report.check(p.name + " " + v.name, error_of(p, d), 1e-6 * (1.0 + 0.05 * std::sqrt(p.k)));
  }
  return report.compare(p.name, variants, p.operations(), budget, undecided);
}

/// Five percent, or 200 ns, over the best of the libraries.
double bound_of(const Timings& t, std::size_t libraries) {
  double best = t.seconds(1);
  for (std::size_t v = 2; v < libraries; ++v) best = std::min(best, t.seconds(v));
  return std::max(1.05, 1.0 + 200e-9 / best);
}

/// The door against the libraries called directly: one bar.
template <class T>
void against_peers(Report& report, const Problem& p, bool barred, double budget, bool doors) {
  Data<T> d(p);
  std::vector<Variant> variants = {{"door", [&] { door(p, d); }}};
  const auto forced = [&](const char* name, GemmDoor which) {
    variants.push_back({name, [&p, &d, which] {
                          const ForcedGemmDoor way(which);
                          door(p, d);
                        }});
  };
#if KRAMA_HAS_ONEDNN
  DirectOnednn<T> onednn(p, d);
  variants.push_back({"oneDNN", [&] { onednn(); }});
#endif
#if KRAMA_HAS_OPENBLAS
  if constexpr (std::is_same_v<T, float>) {
    variants.push_back({"OpenBLAS", [&] { direct_openblas(p, d); }});
  }
#endif
  const std::size_t libraries = variants.size();
  if (doors) {
    forced("packed", GemmDoor::packed);
    forced("via oneDNN", GemmDoor::onednn);
    if (std::is_same_v<T, float>) forced("via OpenBLAS", GemmDoor::openblas);
  }
  const auto undecided = [libraries](const Timings& t) {
    for (std::size_t v = 1; v < libraries; ++v) {
      if (t.undecided(0, v, bound_of(t, libraries))) return true;
    }
    return false;
  };
  if (!barred || libraries < 2) {
    measure(report, p, d, variants, budget);
    return;
  }
  const Timings t = measure(report, p, d, variants, budget, undecided);
  double ratio = 0;
  for (std::size_t v = 1; v < libraries; ++v) ratio = std::max(ratio, t.ratio(0, v));
  report.bar(p.name + ": door over the better library", ratio, bound_of(t, libraries));
}

void portable_against_onednn(Report& report, double budget) {
#if KRAMA_HAS_ONEDNN
  const Problem p{"portable 1024", Op::none, Op::none, 1024, 1024, 1024, 0.0F, 1};
  Data<float> d(p);
  DirectOnednn<float> onednn(p, d);
  const Timings t = measure<float>(report, p, d,
                                   {{"portable",
                                     [&] {
                                       const ForcedGemmDoor forced(GemmDoor::portable);
                                       door(p, d);
                                     }},
                                    {"oneDNN", [&] { onednn(); }}},
                                   2 * budget);
  report.bar("portable kernel's share of oneDNN's speed at 1024", t.ratio(1, 0), 0.4,
             Better::higher);
#else
  (void)report;
  (void)budget;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  clean_environment(argv);
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const std::string part = argc > 1 ? argv[1] : "";
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.4;
  const bool doors = argc > 3;
  Report report("gemm");
  for (Problem p : problems()) {
    if (p.name.find(part) != std::string::npos)
      against_peers<float>(report, p, true, budget, doors);
    p.name += " bf16";
    if (p.name.find(part) != std::string::npos)
      against_peers<bf16>(report, p, false, budget / 4, doors);
  }
  if (std::string("portable 1024").find(part) != std::string::npos) {
    portable_against_onednn(report, budget);
  }
  return report.finish();
}
