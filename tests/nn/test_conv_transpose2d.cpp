// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/conv_transpose2d.hpp>

#include <krama/nn/layers/conv2d.hpp>
#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::Conv2d;
using nn::ConvTranspose2d;
using test::run_layer;
using test::values;
using test::worst_relative;

namespace {

struct Case {
  ConvTranspose2d layer;
  Shape in;
  Shape out;
};

std::vector<Case> cases() {
  return {
      {{.in_channels = 3, .out_channels = 5}, {2, 3, 4, 3}, {2, 6, 8, 5}},
      {{.in_channels = 4, .out_channels = 3, .kernel = 3, .padding = 1, .output_padding = {1, 0}},
       {2, 3, 4, 4},
       {2, 6, 7, 3}},
      {{.in_channels = 2, .out_channels = 3, .kernel = 3, .stride = 1}, {1, 4, 5, 2}, {1, 6, 7, 3}},
      {{.in_channels = 2,
        .out_channels = 2,
        .kernel = {1, 4},
        .stride = {3, 2},
        .output_padding = {2, 1},
        .bias = false},
       {2, 3, 2, 2},
       {2, 9, 7, 2}},
      {{.in_channels = 4, .out_channels = 6, .kernel = 3, .dilation = 2, .groups = 2},
       {1, 3, 2, 4},
       {1, 9, 7, 6}},
      {{.in_channels = 5, .out_channels = 5, .kernel = 3, .padding = 1, .groups = 5},
       {2, 3, 3, 5},
       {2, 5, 5, 5}},
      {{.in_channels = 6, .out_channels = 3, .kernel = 1, .stride = 1}, {2, 3, 2, 6}, {2, 3, 2, 3}},
  };
}

/// The definition, in double: every element of x spreads over the output.
struct Reference {
  std::vector<double> y, dx, grads;
};
template <class T>
Reference reference(const ConvTranspose2d& l, const Shape& in, const Shape& out,
                    const std::vector<T>& x, const std::vector<accum_t<T>>& params,
                    const std::vector<T>& dy) {
  using A = accum_t<T>;
  const auto at = [](const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c,
                     std::int64_t d) {
    return static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d);
  };
  const std::int64_t cg = l.in_channels / l.groups;
  const std::int64_t og = l.out_channels / l.groups;
  const Shape ws{l.in_channels, l.kernel.h, l.kernel.w, og};
  const auto nw = static_cast<std::size_t>(ws.size());
  Reference r{std::vector<double>(dy.size()), std::vector<double>(x.size()),
              std::vector<double>(params.size())};
  const auto number = [](T v) { return static_cast<double>(static_cast<A>(v)); };
  for (std::size_t i = 0; l.bias && i < dy.size(); ++i) {
    const std::size_t b = nw + i % static_cast<std::size_t>(l.out_channels);
    r.y[i] = static_cast<double>(params[b]);
    r.grads[b] += number(dy[i]);
  }
  for (std::int64_t xi = 0; xi < in.size(); ++xi) {
    const std::int64_t c = xi % in[3], iw = xi / in[3] % in[2], ih = xi / in[3] / in[2] % in[1];
    const std::int64_t n = xi / in[3] / in[2] / in[1];
    for (std::int64_t kh = 0; kh < l.kernel.h; ++kh) {
      for (std::int64_t kw = 0; kw < l.kernel.w; ++kw) {
        const std::int64_t oh = ih * l.stride.h - l.padding.h + kh * l.dilation.h;
        const std::int64_t ow = iw * l.stride.w - l.padding.w + kw * l.dilation.w;
        if (oh < 0 || oh >= out[1] || ow < 0 || ow >= out[2]) continue;
        for (std::int64_t o = 0; o < og; ++o) {
          const auto yi = at(out, n, oh, ow, c / cg * og + o);
          const auto wi = at(ws, c, kh, kw, o);
          const auto i = static_cast<std::size_t>(xi);
          r.y[yi] += number(x[i]) * static_cast<double>(params[wi]);
          r.dx[i] += number(dy[yi]) * static_cast<double>(params[wi]);
          r.grads[wi] += number(dy[yi]) * number(x[i]);
        }
      }
    }
  }
  return r;
}

}  // namespace

TEMPLATE_TEST_CASE("conv_transpose2d: gradients and contract", "[nn]", double, float) {
  for (const auto& c : cases()) {
    INFO("input " << to_string(c.in) << ", " << c.layer.groups << " groups");
    CHECK(c.layer.out(c.in) == c.out);
    CHECK(testing::check_layer<TestDevice, TestType>(c.layer, c.in).text() == "");
  }
}

TEMPLATE_TEST_CASE("conv_transpose2d: values and gradients are the definition's", "[nn]", double,
                   float, bf16, f16) {
  using T = TestType;
  const double tolerance = std::is_same_v<T, double>  ? 1e-13
                           : std::is_same_v<T, float> ? 1e-5
                           : std::is_same_v<T, bf16>  ? 1e-2
                                                      : 2e-3;
  for (const auto door : {kernels::ConvDoor::portable, kernels::ConvDoor::onednn}) {
    const kernels::ForcedConvDoor forced(door);
    for (const auto& c : cases()) {
      INFO("input " << to_string(c.in) << ", " << c.layer.groups << " groups");
      const auto params = test::params_of<T>(c.layer, 3);
      const auto x = values<T>(c.in.size(), 1);
      const auto dy = values<T>(c.out.size(), 2);
      const auto got = run_layer<T>(c.layer, c.in, x, params, dy);
      const auto want = reference<T>(c.layer, c.in, c.out, x, params, dy);
      CHECK(worst_relative(got.y, want.y) <= tolerance);
      CHECK(worst_relative(got.dx, want.dx) <= tolerance);
      CHECK(worst_relative(got.grads, want.grads) <= tolerance);
    }
  }
}

TEST_CASE("conv_transpose2d: leads back to where a convolution came from", "[nn]") {
  const Conv2d down{.in_channels = 3, .out_channels = 4, .stride = {2, 3}, .padding = 1};
  const ConvTranspose2d up{.in_channels = 4,
                           .out_channels = 3,
                           .kernel = 3,
                           .stride = {2, 3},
                           .padding = 1,
                           .output_padding = {1, 2}};
  const Shape in{2, 8, 9, 3};
  CHECK(up.out(down.out(in)) == in);
}

TEST_CASE("conv_transpose2d: misfits say what was found and wanted", "[nn]") {
  const ConvTranspose2d conv{.in_channels = 3, .out_channels = 4};
  CHECK_THROWS_WITH(conv.out({2, 3, 8, 8}),
                    ContainsSubstring("(images, height, width, 3), found (2, 3, 8, 8)"));
  CHECK_THROWS_AS(conv.out({8, 8, 3}), Error);
  CHECK_THROWS_WITH(
      (ConvTranspose2d{.in_channels = 1, .out_channels = 1, .padding = 2}.out({1, 2, 2, 1})),
      ContainsSubstring("cuts an output of 4 x 4 to nothing"));
  ParamSpec spec;
  CHECK_THROWS_WITH(
      (ConvTranspose2d{.in_channels = 1, .out_channels = 1, .output_padding = 2}.params(spec)),
      ContainsSubstring("less than the stride, found 2 x 2"));
  CHECK_THROWS_WITH(
      (ConvTranspose2d{.in_channels = 3, .out_channels = 4, .groups = 2}.params(spec)),
      ContainsSubstring("found 2 groups for 3 -> 4 channels"));
  CHECK_THROWS_AS((ConvTranspose2d{.in_channels = 0, .out_channels = 4}.params(spec)), Error);
  CHECK_THROWS_AS((ConvTranspose2d{.in_channels = 1, .out_channels = 4, .stride = 0}.params(spec)),
                  Error);
}
