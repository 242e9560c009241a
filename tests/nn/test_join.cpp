// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/nn/model.hpp>

#include <krama/nn/layers/silu.hpp>
#include <krama/tensor/copy.hpp>

#include "nn/run_layer.hpp"
#include "support/test_space.hpp"

#include <catch2/catch_all.hpp>
#include <vector>

using namespace krama;
using Catch::Matchers::ContainsSubstring;

namespace {

using D = TestDevice;
using M = mem_of<D>;

/// A join of values with what one forward and backward gave, elements in double.
template <class T>
struct Run {
  Shape out;
  std::vector<double> y;
  std::vector<std::vector<double>> dx;
  std::vector<std::vector<T>> x;
  std::vector<T> dy;

  Run(const nn::Block<D, T>& join, const std::vector<Shape>& in, std::size_t unwanted = 99) {
    const exec_of<D> exec;
    out = join.out(in);
    std::vector<Tensor<T, 1, M>> memory;
    const auto any = [&](const std::vector<T>& v, const Shape& s) {
      memory.emplace_back(exec, "t", Extents<1>{s.size()});
      upload(exec, memory.back().ref(), std::span<const T>(v));
      return AnyRef<M>{memory.back().data(), dtype_of<T>, s};
    };
    std::vector<AnyRef<M>> ax, adx;
    for (std::size_t i = 0; i < in.size(); ++i) {
      x.push_back(test::values<T>(in[i].size(), static_cast<std::uint32_t>(i)));
      ax.push_back(any(x.back(), in[i]));
      adx.push_back(any(std::vector<T>(x.back().size(), static_cast<T>(7.0F)), in[i]));
      if (i == unwanted) adx.back().data = nullptr;
    }
    dy = test::values<T>(out.size(), 50);
    const auto ay = any(std::vector<T>(dy.size(), static_cast<T>(7.0F)), out);
    const auto ady = any(dy, out);
    const nn::BatchInfo batch{0, in[0][0], 1, 0};
    const nn::Context<D, T> ctx(exec, nn::CallInfo{}, batch, {}, {}, nullptr, nullptr);
    join.forward(ctx, ax, ay);
    join.backward(ctx, ax, ay, ady, adx);
    const auto read = [&](const AnyRef<M>& a) {
      std::vector<double> v;
      for (const T e : download(exec, a.template as<T, 1>())) {
        v.push_back(static_cast<double>(static_cast<accum_t<T>>(e)));
      }
      return v;
    };
    y = read(ay);
    for (const auto& a : adx) dx.push_back(a.null() ? std::vector<double>{} : read(a));
  }
};

/// Element of (n, h, w, c), 0 outside.
template <class V>
double at(const std::vector<V>& v, const Shape& s, std::int64_t n, std::int64_t h, std::int64_t w,
          std::int64_t c) {
  if (h < 0 || h >= s[1] || w < 0 || w >= s[2]) return 0.0;
  const auto i = static_cast<std::size_t>(((n * s[1] + h) * s[2] + w) * s[3] + c);
  return static_cast<double>(v[i]);
}

std::int64_t floor_half(std::int64_t d) { return d >= 0 ? d / 2 : -(-d / 2); }

}  // namespace

TEMPLATE_TEST_CASE("join: D11 long skips of odd sizes are cropped or padded as stated", "[nn]",
                   double, float) {
  for (const bool concat : {true, false}) {
    for (const auto fit : {nn::Fit::crop, nn::Fit::pad}) {
      for (std::int64_t h = 30; h <= 34; ++h) {
        const std::vector<Shape> in{{2, h, 33, 3}, {2, 32, h, 3}, {2, 31, 30, 3}};
        const auto n = concat ? std::unique_ptr<nn::Block<D, TestType>>(
                                    std::make_unique<nn::ConcatBlock<D, TestType>>(fit))
                              : std::make_unique<nn::AddBlock<D, TestType>>(fit);
        const Run<TestType> r(*n, in);
        CAPTURE(concat, fit == nn::Fit::crop, h);
        const auto pick = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
          return fit == nn::Fit::crop ? std::min({a, b, c}) : std::max({a, b, c});
        };
        REQUIRE(r.out == Shape{2, pick(h, 32, 31), pick(33, h, 30), concat ? 9 : 3});
        double worst = 0;
        for (std::size_t i = 0; i < 3; ++i) {
          const auto up = floor_half(r.out[1] - in[i][1]), left = floor_half(r.out[2] - in[i][2]);
          const std::int64_t c0 = concat ? static_cast<std::int64_t>(3 * i) : 0;
          for (std::int64_t k = 0; k < in[i].size(); ++k) {
            const auto c = k % 3, w = k / 3 % in[i][2], row = k / 3 / in[i][2] % in[i][1];
            const auto image = k / 3 / in[i][2] / in[i][1];
            worst = std::max(worst, std::abs(r.dx[i][static_cast<std::size_t>(k)] -
                                             at(r.dy, r.out, image, row + up, w + left, c0 + c)));
          }
        }
        for (std::int64_t k = 0; k < r.out.size(); ++k) {
          const auto c = k % r.out[3], w = k / r.out[3] % r.out[2];
          const auto row = k / r.out[3] / r.out[2] % r.out[1];
          const auto image = k / r.out[3] / r.out[2] / r.out[1];
          double want = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            const auto up = floor_half(r.out[1] - in[i][1]), left = floor_half(r.out[2] - in[i][2]);
            if (concat && c / 3 != static_cast<std::int64_t>(i)) continue;
            want += at(r.x[i], in[i], image, row - up, w - left, c % 3);
          }
          worst = std::max(worst, std::abs(r.y[static_cast<std::size_t>(k)] - want));
        }
        CHECK(worst < (concat ? 1e-30 : 1e-6));
      }
    }
  }
}

TEST_CASE("join: an uneven difference lies behind", "[nn]") {
  // Width 2 padded to 5: one column before, two behind.
  const Run<float> r(nn::ConcatBlock<D, float>(nn::Fit::pad), {{1, 1, 5, 1}, {1, 1, 2, 1}});
  for (std::size_t w = 0; w < 5; ++w) {
    const bool inside = w == 1 || w == 2;
    CHECK(r.y[2 * w + 1] == (inside ? static_cast<double>(r.x[1][w - 1]) : 0.0));
  }
}

TEST_CASE("join: ranks other than images, and inputs without a gradient", "[nn]") {
  const Run<double> rows(nn::ConcatBlock<D, double>(), {{3, 2}, {3, 4}}, 0);
  CHECK(rows.out == Shape{3, 6});
  CHECK(rows.y[2] == rows.x[1][0]);
  CHECK(rows.dx[0].empty());
  CHECK(rows.dx[1][4] == rows.dy[8]);
  const Run<double> text(nn::ConcatBlock<D, double>(nn::Fit::crop), {{2, 7, 2}, {2, 5, 1}});
  CHECK(text.out == Shape{2, 5, 3});
  CHECK(text.y[0] == text.x[0][2]);
  CHECK(text.dx[0][0] == 0.0);
  CHECK(text.dx[0][2] == text.dy[0]);
  const Run<float> deep(nn::ConcatBlock<D, float>(), {{2, 3, 2, 2, 1}, {2, 3, 2, 2, 2}});
  CHECK(deep.out == Shape{2, 3, 2, 2, 3});
  CHECK(deep.y[3 * 23] == static_cast<double>(deep.x[0][23]));
  const Run<float> none(nn::ConcatBlock<D, float>(nn::Fit::pad), {{0, 3, 2, 2}, {0, 4, 2, 1}});
  CHECK(none.y.empty());
}

TEST_CASE("join: D11 what does not fit is refused when the model is made, by name", "[nn]") {
  nn::Model<D, float> m;
  const auto x = m.input("x", {4, 6, 3});
  const auto a = m.block("a", nn::Silu{}, x);
  const auto both = m.concat("skip", {x, a});
  CHECK(m.value(both).sample == Shape{4, 6, 6});
  CHECK_THROWS_WITH(m.add("sum", {both, a}, nn::Fit::pad),
                    ContainsSubstring("block \"sum\": add: shapes differ") &&
                        ContainsSubstring("(1, 4, 6, 6) and (1, 4, 6, 3) in their channels"));
  CHECK_THROWS_WITH(m.concat("one", {a}), ContainsSubstring("concat joins at least two values"));
  const nn::ConcatBlock<D, float> exact, pad(nn::Fit::pad);
  const std::vector<Shape> odd{{1, 35, 4, 2}, {1, 34, 4, 2}};
  CHECK_THROWS_WITH(exact.out(odd),
                    "concat: shapes differ: (1, 35, 4, 2) and (1, 34, 4, 2) in extent "
                    "1; choose Fit::crop or Fit::pad, or other sizes");
  CHECK(pad.out(odd) == Shape{1, 35, 4, 4});
  CHECK_THROWS_AS(pad.out(std::vector<Shape>{{1, 4, 2}, {2, 4, 2}}), Error);
  CHECK_THROWS_AS(pad.out(std::vector<Shape>{{1, 4, 2}, {1, 4, 4, 2}}), Error);
  CHECK_THROWS_AS(pad.out(std::vector<Shape>{{1, 3, 4, 4, 2}, {1, 2, 4, 4, 2}}), Error);
}
