// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/testing/check_layer.hpp>
#include <krama/testing/guarded/device.hpp>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

/// One layer on the stand-in device, compared with the host.
namespace guarded_test {

using namespace krama;
using Guarded = testing::GuardedDevice::device_type;
using Host = Kokkos::OpenMP::device_type;

struct Values {
  std::vector<float> y, dx, grads;
};

/// One forward and one backward on device `D`.
template <class D, class L>
Values run(const L& layer, const Shape& in, std::int32_t classes) {
  using M = mem_of<D>;
  const exec_of<D> exec;
  const bool indices = classes > 0;
  testing::LayerHarness<D, float, L> h(exec, layer, in, indices, 3);
  h.poison_stash();
  h.poison_scratch();
  const auto numbers = [](std::int64_t n, std::uint32_t stream) {
    std::vector<float> v;
    for (std::int64_t i = 0; i < n; ++i) {
      v.push_back(2.0F * uniform({4, stream, 0}, static_cast<std::uint64_t>(i)) - 1.0F);
    }
    return v;
  };
  const auto on_device = [&](const std::vector<float>& v) {
    Tensor<float, 1, M> t(exec, "test", {static_cast<std::int64_t>(v.size())});
    upload(exec, t.ref(), std::span<const float>(v));
    return t;
  };
  const auto x = numbers(in.size(), 1);
  const auto tx = on_device(x), tdy = on_device(numbers(h.out().size(), 2));
  const Tensor<float, 1, M> ty(exec, "y", {h.out().size()}), tdx(exec, "dx", {in.size()});
  std::vector<std::int32_t> ids;
  for (const float v : x) {
    ids.push_back(static_cast<std::int32_t>((v + 1.0F) * 0.5F * static_cast<float>(classes)));
  }
  const Tensor<std::int32_t, 1, M> tids(exec, "ids", {in.size()});
  upload(exec, tids.ref(), std::span<const std::int32_t>(ids));
  const AnyRef<M> ax =
      indices ? AnyRef<M>{tids.data(), DType::i32, in} : AnyRef<M>{tx.data(), DType::f32, in};
  const AnyRef<M> ay{ty.data(), DType::f32, h.out()};
  h.forward(ax, ay);
  h.backward(ax, ay, {tdy.data(), DType::f32, h.out()},
             {indices ? nullptr : tdx.data(), ax.dtype, in});
  Values v{download(exec, ty.ref()), {}, download(exec, h.store().grads())};
  if (!indices) v.dx = download(exec, tdx.ref());
  return v;
}

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0.0 : 1e30;
  double scale = 1e-6;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = d <= largest ? largest : d;  // NaN stays
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return largest / scale;
}

/// The contract on the device with delayed work, and the host's values. `tolerance` is relative to
/// the largest value; 0: the same bits.
template <class L>
void check(const L& layer, const Shape& in, double tolerance, std::int32_t classes = 0) {
  INFO(to_string(in));
  const testing::DelayedWork delayed;
  testing::CheckOptions options;
  options.classes = classes;
  CHECK(testing::check_layer<Guarded, float>(layer, in, options).text() == "");
  const Values there = run<Guarded>(layer, in, classes);
  const Values here = run<Host>(layer, in, classes);
  CHECK(distance(there.y, here.y) <= tolerance);
  CHECK(distance(there.dx, here.dx) <= tolerance);
  CHECK(distance(there.grads, here.grads) <= tolerance);
}

}  // namespace guarded_test
