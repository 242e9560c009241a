// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/layers/conv2d.hpp>

#include <krama/testing/check_layer.hpp>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using nn::Conv2d;
using test::run_layer;
using test::values;
using test::worst_relative;

namespace {

struct Case {
  Conv2d layer;
  Shape in;
};

std::vector<Case> cases() {
  return {
      {{.in_channels = 3, .out_channels = 5}, {2, 5, 7, 3}},
      {{.in_channels = 3, .out_channels = 4, .stride = 2, .padding = 1}, {2, 7, 5, 3}},
      {{.in_channels = 2, .out_channels = 3, .padding = {2, 1}, .dilation = {2, 1}}, {1, 6, 5, 2}},
      {{.in_channels = 1, .out_channels = 6, .kernel = 5, .padding = 2}, {3, 6, 6, 1}},
      {{.in_channels = 2, .out_channels = 2, .kernel = {1, 4}, .stride = {3, 2}}, {2, 7, 9, 2}},
      {{.in_channels = 4, .out_channels = 6, .padding = 1, .groups = 2}, {2, 5, 4, 4}},
      {{.in_channels = 6, .out_channels = 3, .stride = 2, .dilation = 2, .groups = 3},
       {1, 8, 7, 6}},
      // Depthwise, with one and with two output channels an input channel.
      {{.in_channels = 5, .out_channels = 5, .padding = 1, .groups = 5}, {2, 4, 5, 5}},
      {{.in_channels = 3, .out_channels = 6, .stride = 2, .padding = 1, .groups = 3}, {2, 5, 6, 3}},
      {{.in_channels = 37, .out_channels = 37, .kernel = {3, 2}, .groups = 37}, {1, 4, 3, 37}},
      // A product of matrices as it stands; and one tap that is not.
      {{.in_channels = 7, .out_channels = 5, .kernel = 1}, {2, 3, 4, 7}},
      {{.in_channels = 4, .out_channels = 6, .kernel = 1, .groups = 2}, {2, 3, 2, 4}},
      {{.in_channels = 3, .out_channels = 2, .kernel = 1, .stride = 2}, {2, 5, 4, 3}},
      {{.in_channels = 3, .out_channels = 2, .kernel = 1, .padding = 1}, {1, 2, 3, 3}},
      // One place; places that read padding only.
      {{.in_channels = 3, .out_channels = 4, .kernel = {4, 3}}, {3, 4, 3, 3}},
      {{.in_channels = 2, .out_channels = 2, .kernel = 1, .padding = 3, .groups = 2}, {1, 1, 1, 2}},
      {{.in_channels = 2, .out_channels = 3, .kernel = 2, .padding = 3}, {1, 1, 2, 2}},
      {{.in_channels = 3, .out_channels = 4, .padding = 1, .bias = false}, {2, 3, 3, 3}},
  };
}

/// The definition, in double; sums over everything, one after the other.
struct Reference {
  std::vector<double> y, dx, grads;
};
template <class T>
Reference reference(const Conv2d& l, const Shape& in, const std::vector<T>& x,
                    const std::vector<accum_t<T>>& params, const std::vector<T>& dy) {
  using A = accum_t<T>;
  const Shape out = l.out(in);
  const auto at = [](const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c,
                     std::int64_t d) {
    return static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d);
  };
  const std::int64_t cg = l.in_channels / l.groups;
  const std::int64_t og = l.out_channels / l.groups;
  const Shape ws{l.out_channels, l.kernel.h, l.kernel.w, cg};
  const auto nw = static_cast<std::size_t>(ws.size());
  Reference r{std::vector<double>(static_cast<std::size_t>(out.size())),
              std::vector<double>(x.size()), std::vector<double>(params.size())};
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t oh = 0; oh < out[1]; ++oh) {
      for (std::int64_t ow = 0; ow < out[2]; ++ow) {
        for (std::int64_t o = 0; o < out[3]; ++o) {
          const auto yi = at(out, n, oh, ow, o);
          const auto up = static_cast<double>(static_cast<A>(dy[yi]));
          if (l.bias) {
            r.y[yi] += static_cast<double>(params[nw + static_cast<std::size_t>(o)]);
            r.grads[nw + static_cast<std::size_t>(o)] += up;
          }
          for (std::int64_t kh = 0; kh < l.kernel.h; ++kh) {
            for (std::int64_t kw = 0; kw < l.kernel.w; ++kw) {
              const std::int64_t ih = oh * l.stride.h - l.padding.h + kh * l.dilation.h;
              const std::int64_t iw = ow * l.stride.w - l.padding.w + kw * l.dilation.w;
              if (ih < 0 || ih >= in[1] || iw < 0 || iw >= in[2]) continue;
              for (std::int64_t c = 0; c < cg; ++c) {
                const auto xi = at(in, n, ih, iw, o / og * cg + c);
                const auto wi = at(ws, o, kh, kw, c);
                const auto xv = static_cast<double>(static_cast<A>(x[xi]));
                r.y[yi] += xv * static_cast<double>(params[wi]);
                r.dx[xi] += up * static_cast<double>(params[wi]);
                r.grads[wi] += up * xv;
              }
            }
          }
        }
      }
    }
  }
  return r;
}

template <class T>
void compare(const Conv2d& layer, const Shape& in, double tolerance) {
  INFO("input " << to_string(in) << ", " << layer.out_channels << " channels out, " << layer.groups
                << " groups");
  const auto params = test::params_of<T>(layer, 3);
  const auto x = values<T>(in.size(), 1);
  const auto dy = values<T>(layer.out(in).size(), 2);
  const auto got = run_layer<T>(layer, in, x, params, dy);
  const auto want = reference<T>(layer, in, x, params, dy);
  CHECK(worst_relative(got.y, want.y) <= tolerance);
  CHECK(worst_relative(got.dx, want.dx) <= tolerance);
  CHECK(worst_relative(got.grads, want.grads) <= tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("conv2d: gradients and contract", "[nn]", double, float) {
  for (const auto& c : cases()) {
    INFO("input " << to_string(c.in) << ", " << c.layer.out_channels << " channels out, "
                  << c.layer.groups << " groups");
    CHECK(testing::check_layer<TestDevice, TestType>(c.layer, c.in).text() == "");
  }
}

TEMPLATE_TEST_CASE("conv2d: values and gradients are the definition's", "[nn]", double, float, bf16,
                   f16) {
  const double tolerance = std::is_same_v<TestType, double>  ? 1e-13
                           : std::is_same_v<TestType, float> ? 1e-5
                           : std::is_same_v<TestType, bf16>  ? 1e-2
                                                             : 2e-3;
  for (const auto door : {kernels::ConvDoor::portable, kernels::ConvDoor::onednn}) {
    const kernels::ForcedConvDoor forced(door);
    for (const auto& c : cases()) compare<TestType>(c.layer, c.in, tolerance);
  }
}

TEST_CASE("conv2d: an empty batch gives no output and no gradient", "[nn]") {
  for (const std::int64_t groups : {1, 2, 4}) {
    const Conv2d layer{.in_channels = 4, .out_channels = 4, .padding = 1, .groups = groups};
    const auto r = run_layer<float>(layer, {0, 5, 5, 4}, std::vector<float>{}, {}, {});
    CHECK((r.y.empty() && r.dx.empty()));
    CHECK(std::all_of(r.grads.begin(), r.grads.end(), [](float g) { return g == 0.0F; }));
  }
}

TEST_CASE("conv2d: images whose patches are made in parts", "[nn]") {
  // Patches of one image take 12 MiB in float: rows of places at a time. Of 20 small ones, some
  // images at a time.
  const Conv2d large{.in_channels = 32, .out_channels = 3, .stride = {1, 2}, .padding = 1};
  const Conv2d small{.in_channels = 16, .out_channels = 4, .padding = 1, .groups = 2};
  const auto rows = kernels::detail::largest_tile<float>(large.sizes({2, 120, 180, 32}));
  CHECK((rows.images == 1 && rows.rows < 120));
  const auto images = kernels::detail::largest_tile<float>(small.sizes({20, 32, 33, 16}));
  CHECK((images.images > 1 && images.images < 20 && images.rows == 32));
  compare<float>(large, {2, 120, 180, 32}, 1e-4);
  compare<float>(small, {20, 32, 33, 16}, 1e-4);
}

TEST_CASE("conv2d: scratch is bounded whatever the batch", "[nn]") {
  const Conv2d conv{.in_channels = 64, .out_channels = 64, .padding = 1};
  const auto bytes = [&](std::int64_t n) {
    return nn::scratch_of<TestDevice, float>(conv, {n, 56, 56, 64}).bytes();
  };
  CHECK(bytes(100000) < (std::int64_t{9} << 20));
  const Conv2d point{.in_channels = 64, .out_channels = 64, .kernel = 1, .bias = false};
  // No patches; at most the weights in a library's layout.
  CHECK(nn::scratch_of<TestDevice, float>(point, {8, 56, 56, 64}).bytes() <= 64 * 64 * 4);
}

TEST_CASE("conv2d: misfits say what was found and wanted", "[nn]") {
  const Conv2d conv{.in_channels = 3, .out_channels = 4};
  CHECK_THROWS_WITH(conv.out({2, 3, 8, 8}),
                    ContainsSubstring("(images, height, width, 3), found (2, 3, 8, 8)") &&
                        ContainsSubstring("channels come last"));
  CHECK_THROWS_AS(conv.out({8, 8, 3}), Error);
  CHECK_THROWS_WITH(conv.out({2, 2, 8, 3}),
                    ContainsSubstring("covers 3 x 3 pixels, found an input of 2 x 8") &&
                        ContainsSubstring("more padding"));
  ParamSpec spec;
  CHECK_THROWS_WITH((Conv2d{.in_channels = 3, .out_channels = 4, .groups = 2}.params(spec)),
                    ContainsSubstring("found 2 groups for 3 -> 4 channels"));
  CHECK_THROWS_AS((Conv2d{.in_channels = 0, .out_channels = 4}.params(spec)), Error);
  CHECK_THROWS_WITH((Conv2d{.in_channels = 1, .out_channels = 1, .stride = 0}.params(spec)),
                    ContainsSubstring("must be positive"));
}
