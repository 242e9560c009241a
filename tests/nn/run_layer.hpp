// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/testing/harness.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "support/test_space.hpp"

namespace krama::test {

/// What one forward and one backward of a layer gave, as accumulators on the host.
template <class T>
struct LayerRun {
  std::vector<accum_t<T>> y, dx, grads;
};

/// Runs `layer` once with the given input, parameters (flat, in the order of the layer's ids;
/// empty: as initialised) and dy. `X` is the layer's input type.
template <class T, class X, class L>
LayerRun<T> run_layer(const L& layer, const Shape& in, const std::vector<X>& x,
                      const std::vector<accum_t<T>>& params, const std::vector<T>& dy,
                      bool training = true) {
  using D = TestDevice;
  using M = mem_of<D>;
  using A = accum_t<T>;
  const exec_of<D> exec;
  constexpr bool indices = std::is_same_v<X, std::int32_t>;
  testing::LayerHarness<D, T, L> h(exec, layer, in, indices, 1);
  if (!params.empty()) {
    std::vector<A> w = download(exec, h.store().values());
    std::size_t from = 0;
    for (const auto& s : h.store().segments()) {
      for (std::int64_t i = 0; i < s.size; ++i) {
        w[static_cast<std::size_t>(s.offset + i)] = params.at(from++);
      }
    }
    KRAMA_EXPECTS(from == params.size(), "run_layer: {} values for {} parameters", params.size(),
                  from);
    upload(exec, h.store().values(), std::span<const A>(w));
    h.store().refresh_working(exec);
  }
  fill(exec, h.store().grads(), A{0});
  h.poison_stash();
  h.poison_scratch();

  Tensor<X, 1, M> tx(exec, "x", {in.size()}), tdx(exec, "dx", {in.size()});
  Tensor<T, 1, M> ty(exec, "y", {h.out().size()}), tdy(exec, "dy", {h.out().size()});
  upload(exec, tx.ref(), std::span<const X>(x));
  upload(exec, tdy.ref(), std::span<const T>(dy));
  const AnyRef<M> ax{tx.data(), dtype_of<X>, in};
  const AnyRef<M> ay{ty.data(), dtype_of<T>, h.out()};
  h.forward(ax, ay, training);
  h.backward(ax, ay, {tdy.data(), dtype_of<T>, h.out()},
             {indices ? nullptr : tdx.data(), dtype_of<X>, in}, training);

  LayerRun<T> r;
  for (const auto v : download(exec, ty.ref())) r.y.push_back(static_cast<A>(v));
  if constexpr (!indices) {
    for (const auto v : download(exec, tdx.ref())) r.dx.push_back(static_cast<A>(v));
  }
  const auto g = download(exec, h.store().grads());
  for (const auto& s : h.store().segments()) {
    for (std::int64_t i = 0; i < s.size; ++i) {
      r.grads.push_back(g[static_cast<std::size_t>(s.offset + i)]);
    }
  }
  return r;
}

/// Deterministic values in [low, high).
template <class T>
std::vector<T> values(std::int64_t n, std::uint32_t stream, double low = -1.0, double high = 1.0) {
  std::vector<T> v;
  for (std::int64_t i = 0; i < n; ++i) {
    const double u = uniform({5, stream, 0}, static_cast<std::uint64_t>(i));
    v.push_back(static_cast<T>(static_cast<accum_t<T>>(low + (high - low) * u)));
  }
  return v;
}

/// The largest difference; 1e30 where a value is missing or is NaN.
template <class A>
double worst(const std::vector<A>& got, const std::vector<double>& want) {
  double d = got.size() == want.size() ? 0.0 : 1e30;
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) {
    const double e = std::abs(static_cast<double>(got[i]) - want[i]);
    d = e <= d ? d : (std::isnan(e) ? 1e30 : e);
  }
  return d;
}

/// The same as a part of the largest wanted value, or of 1.
template <class A>
double worst_relative(const std::vector<A>& got, const std::vector<double>& want) {
  double largest = 1.0;
  for (const double w : want) largest = std::max(largest, std::abs(w));
  return worst(got, want) / largest;
}

/// Deterministic parameters of a layer, as run_layer takes them.
template <class T, class L>
std::vector<accum_t<T>> params_of(const L& layer, std::uint32_t stream) {
  ParamSpec spec;
  layer.params(spec);
  std::int64_t count = 0;
  for (const auto& p : spec.infos()) count += p.extents.size();
  std::vector<accum_t<T>> params;
  for (const auto p : values<T>(count, stream)) params.push_back(static_cast<accum_t<T>>(p));
  return params;
}

}  // namespace krama::test
