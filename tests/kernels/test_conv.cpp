// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/core/random.hpp>
#include <krama/kernels/conv.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/tensor/tensor.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>
#include <span>

using namespace krama;
using kernels::ConvDoor;
using kernels::ConvSizes;
using kernels::ForcedConvDoor;
using kernels::Size2;

namespace {

using Exec = exec_of<TestDevice>;
using Mem = mem_of<TestDevice>;

/// The n-th of an endless list of problems, small and awkward.
ConvSizes problem(std::uint64_t n) {
  std::uint64_t at = 0;
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    const double u = uniform({7, 1, static_cast<std::uint32_t>(n)}, at++);
    return low + static_cast<std::int64_t>(u * static_cast<double>(high - low + 1));
  };
  ConvSizes s;
  auto& w = s.window;
  const std::int64_t kind = pick(0, 3);  // plain, grouped, depthwise, plain with many channels
  s.groups = kind == 1 ? pick(2, 4) : (kind == 2 ? pick(2, 40) : 1);
  s.in_channels = s.groups * (kind == 2 ? 1 : (kind == 3 ? pick(16, 70) : pick(1, 9)));
  s.out_channels = s.groups * (kind == 2 ? pick(1, 2) : (kind == 3 ? pick(16, 70) : pick(1, 9)));
  w.kernel = Size2(pick(1, 4), pick(1, 4));
  w.stride = Size2(pick(1, 3), pick(1, 3));
  w.dilation = Size2(pick(1, 2), pick(1, 2));
  w.padding = Size2(pick(0, 3), pick(0, 3));
  w.images = pick(1, 3);
  w.in_h = pick(1, 5) + w.dilation.h * (w.kernel.h - 1);
  w.in_w = pick(1, 12) + w.dilation.w * (w.kernel.w - 1);
  w.out_h = kernels::window_places(w.in_h, w.kernel.h, w.stride.h, w.padding.h, w.dilation.h);
  w.out_w = kernels::window_places(w.in_w, w.kernel.w, w.stride.w, w.padding.w, w.dilation.w);
  return s;
}

std::string text(const ConvSizes& s) {
  const auto& w = s.window;
  return fmt::format(
      "{} x {} x {} x {} -> {} channels, {} groups, kernel {} x {}, stride {} x {}, padding {} x "
      "{}, dilation {} x {}",
      w.images, w.in_h, w.in_w, s.in_channels, s.out_channels, s.groups, w.kernel.h, w.kernel.w,
      w.stride.h, w.stride.w, w.padding.h, w.padding.w, w.dilation.h, w.dilation.w);
}

template <class T>
std::vector<T> values(std::int64_t n, std::uint32_t stream) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<T>(2.0F * uniform({3, stream, 0}, i) - 1.0F);
  }
  return v;
}

template <class T>
Tensor<T, 1, Mem> tensor(const Exec& exec, const char* name, const std::vector<T>& v) {
  Tensor<T, 1, Mem> t(exec, name, {static_cast<std::int64_t>(v.size())});
  upload(exec, t.ref(), std::span<const T>(v));
  return t;
}

template <class T>
struct Passes {
  std::vector<T> y, dx;
  std::vector<accum_t<T>> dw;
};

/// All three passes through a door, with NaN in the outputs and in the scratch before. Gradients of
/// weights are added to 1. Nothing may be written behind the scratch.
template <class T>
Passes<T> run(const ConvSizes& s, ConvDoor door) {
  using A = accum_t<T>;
  const ForcedConvDoor forced(door);
  const Exec exec;
  const auto& w = s.window;
  const Extents<4> in{w.images, w.in_h, w.in_w, s.in_channels};
  const Extents<4> out{w.images, w.out_h, w.out_w, s.out_channels};
  const Extents<4> weights{s.out_channels, w.kernel.h, w.kernel.w, s.group_in()};
  const auto nan = std::numeric_limits<A>::quiet_NaN();
  const auto size = [](const Extents<4>& e) { return static_cast<std::size_t>(product(e)); };
  const auto x = tensor(exec, "x", values<T>(product(in), 1));
  const auto dy = tensor(exec, "dy", values<T>(product(out), 2));
  const auto weight = tensor(exec, "w", values<T>(product(weights), 3));
  const auto bias = tensor(exec, "bias", values<T>(s.out_channels, 4));
  const auto y = tensor(exec, "y", std::vector<T>(size(out), static_cast<T>(nan)));
  const auto dx = tensor(exec, "dx", std::vector<T>(size(in), static_cast<T>(nan)));
  const auto dw = tensor(exec, "dw", std::vector<A>(size(weights), A{1}));
  const auto room = static_cast<std::size_t>(kernels::conv_scratch<Exec, T>(s));
  std::vector<A> filled(room + 64, nan);
  std::fill(filled.begin() + static_cast<std::ptrdiff_t>(room), filled.end(), A{7});
  const auto scratch = tensor(exec, "scratch", filled);
  using X = TensorRef<const T, 4, Mem>;
  const TensorRef<const T, 1, Mem> none(nullptr, {s.in_channels});
  kernels::conv_forward(exec, s, X(x.data(), in), X(weight.data(), weights), bias.cref(),
                        TensorRef<T, 4, Mem>(y.data(), out), scratch.data());
  kernels::conv_input_grad(exec, s, X(dy.data(), out), X(weight.data(), weights), none,
                           TensorRef<T, 4, Mem>(dx.data(), in), scratch.data());
  kernels::conv_weight_grad(exec, s, X(x.data(), in), X(dy.data(), out), dw.data(), scratch.data());
  const auto after = download(exec, scratch.ref());
  CHECK(std::all_of(after.begin() + static_cast<std::ptrdiff_t>(room), after.end(),
                    [](A a) { return a == A{7}; }));
  return {download(exec, y.ref()), download(exec, dx.ref()), download(exec, dw.ref())};
}

template <class A>
double difference(const std::vector<A>& a, const std::vector<A>& b) {
  double largest = 1.0;
  double d = a.size() == b.size() ? 0.0 : 1e30;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const auto p = static_cast<double>(static_cast<accum_t<A>>(a[i]));
    const auto q = static_cast<double>(static_cast<accum_t<A>>(b[i]));
    largest = std::max(largest, std::abs(q));
    const double e = std::abs(p - q);
    d = e <= d ? d : (std::isnan(e) ? 1e30 : e);
  }
  return d / largest;
}

template <class T>
void compare(const ConvSizes& s, double tolerance) {
  INFO(text(s));
  const auto want = run<T>(s, ConvDoor::portable);
  for (const auto door : {ConvDoor::onednn, ConvDoor::automatic}) {
    const auto got = run<T>(s, door);
    CHECK(difference(got.y, want.y) <= tolerance);
    CHECK(difference(got.dx, want.dx) <= tolerance);
    CHECK(difference(got.dw, want.dw) <= tolerance);
  }
}

}  // namespace

TEST_CASE("conv: the door agrees with the portable kernels, f32", "[kernels]") {
  for (std::uint64_t n = 0; n < 120; ++n) compare<float>(problem(n), 2e-6);
}

TEST_CASE("conv: the door agrees with the portable kernels, half types", "[kernels]") {
  for (std::uint64_t n = 0; n < 25; ++n) {
    compare<bf16>(problem(n), 1e-2);
    compare<f16>(problem(n), 2e-3);
  }
}

TEST_CASE("conv: a smaller batch never needs more scratch", "[kernels]") {
  ConvSizes s = problem(3);
  s.window.in_h = s.window.in_w = s.window.out_h = s.window.out_w = 200;
  std::int64_t before = 0;
  for (const std::int64_t images : {0, 1, 2, 5, 10, 50, 100, 1000}) {
    s.window.images = images;
    const std::int64_t now = kernels::conv_scratch<Exec, float>(s);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("conv: f64 has one way", "[kernels]") {
  for (std::uint64_t n = 0; n < 10; ++n) {
    const auto a = run<double>(problem(n), ConvDoor::portable);
    const auto b = run<double>(problem(n), ConvDoor::onednn);
    CHECK((a.y == b.y && a.dx == b.dx && a.dw == b.dw));
  }
}

#if KRAMA_HAS_ONEDNN
TEST_CASE("conv: oneDNN takes what networks are made of", "[kernels]") {
  if constexpr (kernels::detail::conv_vendor<Exec, float>) {
    using kernels::detail::ConvPass;
    const ForcedConvDoor forced(ConvDoor::onednn);
    const auto sizes = [](std::int64_t in, std::int64_t out, std::int64_t kernel,
                          std::int64_t stride, std::int64_t groups) {
      return ConvSizes{
          {2, 14, 14, (14 - 1) / stride + 1, (14 - 1) / stride + 1, kernel, stride, kernel / 2, 1},
          in,
          out,
          groups};
    };
    for (const auto& s : {sizes(64, 64, 3, 1, 1), sizes(3, 64, 7, 2, 1), sizes(64, 128, 1, 2, 1),
                          sizes(64, 64, 3, 1, 64)}) {
      INFO(text(s));
      const std::vector<float> x(static_cast<std::size_t>(s.window.in_pixels() * s.in_channels));
      const std::vector<float> y(static_cast<std::size_t>(s.window.places() * s.out_channels));
      const std::vector<float> w(static_cast<std::size_t>(s.out_channels * s.depth()));
      std::vector<float> scratch(static_cast<std::size_t>(kernels::conv_scratch<Exec, float>(s)) +
                                 1);
      for (const auto pass : {ConvPass::forward, ConvPass::input_grad, ConvPass::weight_grad}) {
        CHECK(kernels::detail::try_onednn<Exec, float>({}, pass, s, x.data(), w.data(), nullptr,
                                                       y.data(), scratch.data()));
      }
    }
  }
}
#endif

TEST_CASE("conv: KRAMA_CONV names a door or is refused", "[kernels]") {
  using kernels::detail::conv_door_named;
  CHECK(conv_door_named("") == ConvDoor::automatic);
  CHECK(conv_door_named("auto") == ConvDoor::automatic);
  CHECK(conv_door_named("portable") == ConvDoor::portable);
  CHECK(conv_door_named("onednn") == ConvDoor::onednn);
  CHECK_THROWS_WITH(conv_door_named("mkl"), Catch::Matchers::ContainsSubstring("KRAMA_CONV") &&
                                                Catch::Matchers::ContainsSubstring("mkl"));
}
