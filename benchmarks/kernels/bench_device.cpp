// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// bench_device [SECONDS]: what the default device can do and what Krama makes of it: multiply-adds in
// registers, a pass over memory, square products (a share of the multiply-adds), attention. For
// scripts/gpu_check.sh, which wants lines "FIGURE name figure"; there are no bars.

#include <krama/kernels/gemm.hpp>
#include <krama/nn/layers/attention.hpp>
#include <krama/testing/harness.hpp>

#include "support/bench.hpp"

using namespace krama;

namespace {

using D = DefaultDevice;
using E = exec_of<D>;
using M = mem_of<D>;
constexpr bool is_host = kokkos_ext::is_host_space<E>;
/// Independent sums of one work item: enough to hide the latency of a multiply-add.
constexpr int chains = is_host ? 128 : 32;

struct MultiplyAdds {
  float* out;
  int rounds;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    float a[chains];
    for (int c = 0; c < chains; ++c) a[c] = 1e-3F * static_cast<float>(c + i % 7);
    for (int r = 0; r < rounds; ++r) {
      for (int c = 0; c < chains; ++c) a[c] = Kokkos::fma(a[c], 0.999F, 1e-4F);
    }
    float sum = 0;
    for (int c = 0; c < chains; ++c) sum += a[c];
    out[i] = sum;
  }
};

/// Seconds of the quickest of the calls of `f` that fit into `budget`, after one that warms up.
template <class F>
double quickest(const E& exec, double budget, const F& f) {
  f();
  kokkos_ext::fence(exec, "bench: warm");
  double best = 1e30;
  const double start = bench::seconds_now();
  for (int n = 0; n < 3 || bench::seconds_now() - start < budget; ++n) {
    const double begin = bench::seconds_now();
    f();
    kokkos_ext::fence(exec, "bench");
    best = std::min(best, bench::seconds_now() - begin);
  }
  return best;
}

double peak_of(const E& exec, double budget) {
  const std::int64_t items = is_host ? 64 * exec.concurrency() : 1 << 20;
  const int rounds = is_host ? 20000 : 2000;
  const Tensor<float, 1, M> out(exec, "bench", {items});
  const double s = quickest(exec, budget, [&] {
    kokkos_ext::launch(exec, "bench::multiply_adds", items, MultiplyAdds{out.data(), rounds});
  });
  return 2.0 * chains * rounds * static_cast<double>(items) / s;
}

double bandwidth_of(const E& exec, double budget) {
  const std::int64_t n = is_host ? 1 << 24 : 1 << 28;
  const Tensor<float, 1, M> a(exec, "a", {n}), b(exec, "b", {n});
  fill(exec, a.ref(), 1.0F);
  fill(exec, b.ref(), 1.0F);
  const double s = quickest(exec, budget, [&] { kernels::add(exec, b.ref(), a.ref(), a.ref()); });
  return 8.0 * static_cast<double>(n) / s;
}

/// Operations a second of an n x n product; NaN when an element of it is wrong.
template <class T>
double gemm_of(const E& exec, std::int64_t n, double budget) {
  const auto numbers = [n](std::uint32_t stream) {
    std::vector<T> v;
    for (std::int64_t i = 0; i < n * n; ++i) {
      v.push_back(static_cast<T>(uniform({3, stream, 0}, static_cast<std::uint64_t>(i)) - 0.5F));
    }
    return v;
  };
  const auto ha = numbers(1), hb = numbers(2);
  const Tensor<T, 2, M> a(exec, "a", {n, n}), b(exec, "b", {n, n}), c(exec, "c", {n, n});
  upload(exec, a.ref(), std::span<const T>(ha));
  upload(exec, b.ref(), std::span<const T>(hb));
  const double s = quickest(exec, budget, [&] {
    kernels::gemm(exec, kernels::Op::none, kernels::Op::none, 1.0F, a.cref(), b.cref(), 0.0F,
                  c.ref());
  });
  const auto hc = download(exec, c.ref());
  for (const std::int64_t at : {std::int64_t{0}, n * n / 3, n * n - 1}) {
    double sum = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      sum += static_cast<double>(static_cast<float>(ha[static_cast<std::size_t>(at / n * n + k)])) *
             static_cast<double>(static_cast<float>(hb[static_cast<std::size_t>(k * n + at % n)]));
    }
    const double got = static_cast<double>(static_cast<float>(hc[static_cast<std::size_t>(at)]));
    if (!(std::abs(got - sum) <= 0.02 * std::sqrt(static_cast<double>(n)))) {
      fmt::print("WRONG product: {} for {}\n", got, sum);
      return std::nan("");
    }
  }
  return 2.0 * std::pow(static_cast<double>(n), 3) / s;
}

/// Milliseconds of attention's forward and backward.
template <class T>
std::pair<double, double> attention_of(const E& exec, std::int64_t batch, std::int64_t time,
                                       std::int64_t heads, double budget) {
  const nn::CausalSelfAttention layer{.heads = heads, .head_features = 64};
  const Shape in{batch, time, 3 * 64 * heads};
  testing::LayerHarness<D, T, nn::CausalSelfAttention> h(exec, layer, in, false, 1);
  const Tensor<T, 1, M> x(exec, "x", {in.size()}), dx(exec, "dx", {in.size()});
  const Tensor<T, 1, M> y(exec, "y", {h.out().size()}), dy(exec, "dy", {h.out().size()});
  fill(exec, x.ref(), static_cast<T>(0.1F));
  fill(exec, dy.ref(), static_cast<T>(0.1F));
  const AnyRef<M> ax{x.data(), dtype_of<T>, in}, adx{dx.data(), dtype_of<T>, in};
  const AnyRef<M> ay{y.data(), dtype_of<T>, h.out()}, ady{dy.data(), dtype_of<T>, h.out()};
  const double forward = quickest(exec, budget, [&] { h.forward(ax, ay); });
  const double backward = quickest(exec, budget, [&] { h.backward(ax, ay, ady, adx); });
  return {1e3 * forward, 1e3 * backward};
}

void figure(const std::string& name, const std::string& text) {
  fmt::print("FIGURE {} {}\n", name, text);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.3;
  const E exec;
  const std::int64_t n = is_host ? 768 : 4096;
  const double peak = peak_of(exec, budget);
  figure("multiply-adds",
         fmt::format("{:.3g} TFLOP/s in f32, measured in registers", peak * 1e-12));
  figure("memory", fmt::format("{:.0f} GB/s", bandwidth_of(exec, budget) * 1e-9));
  const double f32 = gemm_of<float>(exec, n, budget);
  figure(
      fmt::format("product-f32-{}", n),
      fmt::format("{:.3g} TFLOP/s, {:.0f} % of the multiply-adds", f32 * 1e-12, 100 * f32 / peak));
  const double low = gemm_of<bf16>(exec, n, budget);
  figure(fmt::format("product-bf16-{}", n), fmt::format("{:.3g} TFLOP/s", low * 1e-12));
  const std::int64_t heads = is_host ? 2 : 12, time = is_host ? 256 : 1024, batch = is_host ? 1 : 8;
  const auto [forward, backward] = attention_of<bf16>(exec, batch, time, heads, budget);
  figure(fmt::format("attention-bf16-{}x{}x{}x64", batch, time, heads),
         fmt::format("{:.3g} ms forward, {:.3g} ms backward", forward, backward));
  return std::isfinite(f32) && std::isfinite(low) ? 0 : 1;
}
