// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <krama/kokkos_ext/streams.hpp>
#include <krama/testing/harness.hpp>
#include <krama/testing/report.hpp>
#include <krama/testing/tools_probe.hpp>

namespace krama::testing {

struct CheckOptions {
  std::uint64_t seed = 7;
  bool training = true;
  /// Inputs are uniform in [low, high); integer inputs are uniform in [0, classes).
  double low = -1.0;
  double high = 1.0;
  std::int32_t classes = 0;  ///< > 0: the layer reads indices
  double step = 0.0;         ///< of the finite differences; 0: by type
  double tolerance = 0.0;    ///< relative to the largest gradient; 0: by type
  std::string label_prefix = "krama::";
};

namespace detail {

template <class A>
struct Run {
  std::vector<A> y, dx, grads;
};

template <class A>
bool same_bits(const std::vector<A>& a, const std::vector<A>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0);
}

}  // namespace detail

/// Checks the contract of a layer (see nn/layer.hpp) for inputs of shape `in`:
/// finite differences of dx and of every parameter's gradient; gradients accumulate; a second run,
/// and backward after a recomputation with poisoned memory in between, give the same bits; a null dx
/// is allowed; kernels run on the given instance, carry labels with the prefix, and nothing is
/// allocated after the first call. `T` is double or float.
template <Device D, class T, class N>
Report check_layer(const N& layer, const Shape& in, const CheckOptions& options = {}) {
  using M = mem_of<D>;
  using A = accum_t<T>;
  Report report;
  const auto fail = [&](std::string text) { report.failures.push_back(std::move(text)); };

  const exec_of<D> exec = kokkos_ext::separate_instance(exec_of<D>{});
  const bool indices = options.classes > 0;
  LayerHarness<D, T, N> h(exec, layer, in, indices, options.seed);
  auto& store = h.store();

  // Parameters away from their first values: zeros and ones hide mistakes.
  std::vector<A> w = download(exec, store.values());
  for (const auto& s : store.segments()) {
    for (std::int64_t i = 0; i < s.size; ++i) {
      w[static_cast<std::size_t>(s.offset + i)] += static_cast<A>(
          0.4 * uniform({options.seed, 11, 0}, static_cast<std::uint64_t>(s.offset + i)) - 0.2);
    }
  }
  const auto set_params = [&](const std::vector<A>& values) {
    upload(exec, store.values(), std::span<const A>(values));
    store.refresh_working(exec);
  };
  set_params(w);

  std::vector<T> x(static_cast<std::size_t>(in.size()));
  std::vector<std::int32_t> ids(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = uniform({options.seed, 12, 0}, i);
    x[i] = static_cast<T>(options.low + (options.high - options.low) * u);
    ids[i] = static_cast<std::int32_t>(u * options.classes);
  }
  std::vector<T> dy(static_cast<std::size_t>(h.out().size()));
  for (std::size_t i = 0; i < dy.size(); ++i) {
    dy[i] = static_cast<T>(2.0 * uniform({options.seed, 13, 0}, i) - 1.0);
  }

  const std::int64_t nx = in.size();
  const std::int64_t ny = h.out().size();
  Tensor<T, 1, M> tx(exec, "krama::testing::x", {nx}), tdx(exec, "krama::testing::dx", {nx});
  Tensor<T, 1, M> ty(exec, "krama::testing::y", {ny}), tdy(exec, "krama::testing::dy", {ny});
  Tensor<std::int32_t, 1, M> tids(exec, "krama::testing::ids", {nx});
  upload(exec, tids.ref(), std::span<const std::int32_t>(ids));
  upload(exec, tdy.ref(), std::span<const T>(dy));
  const AnyRef<M> ax =
      indices ? AnyRef<M>{tids.data(), DType::i32, in} : AnyRef<M>{tx.data(), dtype_of<T>, in};
  const AnyRef<M> ay{ty.data(), dtype_of<T>, h.out()};
  const AnyRef<M> ady{tdy.data(), dtype_of<T>, h.out()};
  const AnyRef<M> adx{indices ? nullptr : tdx.data(), dtype_of<T>, in};
  const AnyRef<M> no_dx{nullptr, indices ? DType::i32 : dtype_of<T>, in};

  const auto set_x = [&](const std::vector<T>& v) {
    upload(exec, tx.ref(), std::span<const T>(v));
  };
  const auto poison_all = [&] {
    h.poison_stash();
    h.poison_scratch();
    fill(exec, tdx.ref(), static_cast<T>(std::nan("")));
  };
  enum class Mode { keep, recompute, without_dx };
  const auto run = [&](Mode mode, int backwards = 1) {
    detail::Run<A> r;
    set_x(x);
    fill(exec, store.grads(), A{0});
    poison_all();
    fill(exec, ty.ref(), static_cast<T>(std::nan("")));
    h.forward(ax, ay, options.training);
    for (const auto v : download(exec, ty.ref())) r.y.push_back(static_cast<A>(v));
    for (int k = 0; k < backwards; ++k) {
      if (mode == Mode::recompute) {
        poison_all();
        fill(exec, ty.ref(), static_cast<T>(std::nan("")));
        h.forward(ax, ay, options.training);
      }
      h.poison_scratch();
      h.backward(ax, ay, ady, mode == Mode::without_dx || indices ? no_dx : adx, options.training);
    }
    for (const auto v : download(exec, tdx.ref())) r.dx.push_back(static_cast<A>(v));
    r.grads = download(exec, store.grads());
    return r;
  };

  const auto first = run(Mode::keep);
  const auto has_nan = [](const std::vector<A>& v) {
    return std::any_of(v.begin(), v.end(), [](A a) { return std::isnan(a); });
  };
  if (has_nan(first.y))
    fail("forward leaves NaN: it reads what it did not write, or skips outputs");
  if (!indices && has_nan(first.dx)) fail("backward leaves NaN in dx");
  if (has_nan(first.grads)) fail("backward leaves NaN in parameter gradients");

  const auto second = run(Mode::keep);
  if (!detail::same_bits(first.y, second.y) || !detail::same_bits(first.grads, second.grads) ||
      (!indices && !detail::same_bits(first.dx, second.dx))) {
    fail("a second run gives other bits");
  }
  const auto recomputed = run(Mode::recompute);
  if (!detail::same_bits(first.grads, recomputed.grads) ||
      (!indices && !detail::same_bits(first.dx, recomputed.dx))) {
    fail("backward after recomputation gives other bits");
  }
  const auto without = run(Mode::without_dx);
  if (!detail::same_bits(first.grads, without.grads)) {
    fail("parameter gradients change when dx is not wanted");
  }
  const auto twice = run(Mode::keep, 2);
  for (std::size_t i = 0; i < first.grads.size(); ++i) {
    const double want = 2.0 * static_cast<double>(first.grads[i]);
    if (std::abs(static_cast<double>(twice.grads[i]) - want) >
        1e-5 * std::max(1.0, std::abs(want))) {
      fail(
          fmt::format("parameter gradients do not accumulate: element {} is {} after two calls, {} "
                      "after one",
                      i, static_cast<double>(twice.grads[i]), static_cast<double>(first.grads[i])));
      break;
    }
  }

  // Finite differences of L = sum(dy * y), every element while that is affordable.
  const bool is_double = std::is_same_v<T, double>;
  const double eps = options.step > 0.0 ? options.step : (is_double ? 1e-5 : 1e-2);
  const double tol = options.tolerance > 0.0 ? options.tolerance : (is_double ? 1e-7 : 2e-2);
  const auto loss = [&] {
    h.poison_stash();
    h.poison_scratch();
    h.forward(ax, ay, options.training);
    const auto y = download(exec, ty.ref());
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += static_cast<double>(static_cast<A>(y[i])) * static_cast<double>(static_cast<A>(dy[i]));
    }
    return sum;
  };
  const auto compare = [&](const std::string& what, std::int64_t n,
                           const std::function<double(std::int64_t)>& analytic,
                           const std::function<void(std::int64_t, double)>& shift) {
    double largest = 1e-3;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(analytic(i)));
    const std::int64_t stride = std::max<std::int64_t>(1, n / 96);
    for (std::int64_t i = 0; i < n; i += stride) {
      shift(i, eps);
      const double up = loss();
      shift(i, -eps);
      const double down = loss();
      shift(i, 0.0);
      const double numeric = (up - down) / (2.0 * eps);
      if (!(std::abs(numeric - analytic(i)) <= tol * largest)) {
        fail(fmt::format("{}[{}]: backward says {:.9g}, finite differences {:.9g} (largest {:.3g})",
                         what, i, analytic(i), numeric, largest));
        return;
      }
    }
  };
  set_x(x);
  if (!indices) {
    compare(
        "dx", nx, [&](std::int64_t i) { return first.dx[static_cast<std::size_t>(i)]; },
        [&](std::int64_t i, double d) {
          auto v = x;
          v[static_cast<std::size_t>(i)] = static_cast<T>(
              static_cast<double>(static_cast<A>(v[static_cast<std::size_t>(i)])) + d);
          set_x(v);
        });
  }
  for (const auto& s : store.segments()) {
    if (s.frozen) continue;
    compare(
        "gradient of " + s.name, s.size,
        [&](std::int64_t i) { return first.grads[static_cast<std::size_t>(s.offset + i)]; },
        [&](std::int64_t i, double d) {
          auto v = w;
          v[static_cast<std::size_t>(s.offset + i)] += static_cast<A>(d);
          set_params(v);
        });
  }

  // The probe sees every kernel and allocation of one more forward and backward.
  set_x(x);
  {
    ToolsProbe probe;
    h.forward(ax, ay, options.training);
    h.backward(ax, ay, ady, indices ? no_dx : adx, options.training);
    kokkos_ext::fence(exec, "krama::testing::check_layer");  // a device may not have begun yet
    const auto seen = probe.stop();
    if (seen.kernels.empty()) fail("the probe saw no kernel");
    for (const auto& k : seen.kernels) {
      if (k.label.rfind(options.label_prefix, 0) != 0) {
        fail("kernel label \"" + k.label + "\" lacks the prefix " + options.label_prefix);
      }
    }
    for (const auto& label : seen.allocations) {
      fail("allocation \"" + label + "\" in a call after the first");
    }
    for (const auto& name : seen.global_fences) fail("global fence \"" + name + "\"");
    const auto want = Kokkos::Tools::Experimental::device_id(exec);
    for (const auto& k : seen.kernels) {
      if (k.device != want) {
        fail("kernel \"" + k.label + "\" ran on another instance than the given one");
      }
    }
  }
  kokkos_ext::fence(exec, "krama::testing::check_layer");
  return report;
}

}  // namespace krama::testing
