// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <krama/kernels/elementwise.hpp>
#include <krama/kernels/move_window.hpp>
#include <krama/nn/block.hpp>
#include <krama/tensor/copy.hpp>

namespace krama::nn {

/// What a join does with values (samples, height, width, channels) of unlike height or width, as
/// long skips over odd sizes give: 35 halved is 17, doubled is 34.
enum class Fit : std::uint8_t {
  exact,  ///< refuses them, when the model is made
  crop,   ///< cuts all to the smallest height and width
  pad     ///< fills all with zeros to the largest height and width
};
// Of a difference d, d / 2 (rounded down) lies before, the rest behind.

namespace detail {

/// How the values of one join lie in each other.
class Join {
 public:
  Join(std::string_view what, Fit fit, std::span<const Shape> in) {
    KRAMA_EXPECTS(in.size() >= 2, "{} joins at least two values, not {}", what, in.size());
    for (const auto& s : in) {
      KRAMA_EXPECTS(
          s.rank() == in[0].rank() && s.rank() >= 2,
          "{}: shapes differ: {} and {}; all must have as many extents, at least (samples, "
          "channels)",
          what, to_string(in[0]), to_string(s));
    }
    // Extents before height stand for more images; only height and width can be fitted.
    out_ = in[0];
    const int rank = out_.rank();
    for (const auto& s : in) {
      for (int i = 0; i + 1 < rank; ++i) {
        const bool fits = i >= rank - 3 && i > 0 && fit != Fit::exact;
        KRAMA_EXPECTS(s[i] == in[0][i] || fits, "{}: shapes differ: {} and {} in extent {}{}", what,
                      to_string(in[0]), to_string(s), i,
                      i > 0 && i >= rank - 3 && fit == Fit::exact
                          ? "; choose Fit::crop or Fit::pad, or other sizes"
                          : "");
        const auto extent = fit == Fit::crop ? std::min(out_[i], s[i]) : std::max(out_[i], s[i]);
        out_ = out_.with(i, extent);
      }
    }
  }

  [[nodiscard]] const Shape& common() const { return out_; }
  [[nodiscard]] std::int64_t images() const {
    std::int64_t n = 1;
    for (int i = 0; i < std::max(1, out_.rank() - 3); ++i) n *= out_[i];
    return n;
  }
  /// Window of a value of shape `s` whose channels begin at `channel` of it.
  [[nodiscard]] static kernels::Window window(const Shape& s, std::int64_t channel = 0) {
    return {s.rank() >= 4 ? s[-3] : 1, s.rank() >= 3 ? s[-2] : 1, s[-1], channel};
  }
  /// Where value i lies in the joined one; negative where it is cut.
  [[nodiscard]] static std::int64_t before(std::int64_t joined, std::int64_t own) {
    return joined >= own ? (joined - own) / 2 : -((own - joined) / 2);
  }

  /// The joined value takes (or adds) value i at channel `channel`.
  template <class E, class T>
  void put(const E& exec, const char* label, T* y, const kernels::Window& out, const T* x,
           const Shape& own, bool adds) const {
    const auto in = window(own);
    kernels::move_window(exec, label, images(), own[-1], y, out, x, in,
                         before(out.height, in.height), before(out.width, in.width), adds);
  }
  /// And back: value i's part of the joined gradient, 0 where it was cut.
  template <class E, class T>
  void take(const E& exec, const char* label, T* dx, const Shape& own, const T* dy,
            const kernels::Window& out) const {
    const auto in = window(own);
    kernels::move_window(exec, label, images(), own[-1], dx, in, dy, out,
                         -before(out.height, in.height), -before(out.width, in.width), false);
  }

 private:
  Shape out_;
};

template <class Value>
std::vector<Shape> shapes_of(std::span<const Value> values) {
  std::vector<Shape> shapes;
  for (const auto& v : values) shapes.push_back(v.shape);
  return shapes;
}

}  // namespace detail

/// y = x0 + x1 + …: joins values that several blocks made.
template <Device D, class T>
class AddBlock final : public Block<D, T> {
 public:
  using typename Block<D, T>::Value;

  explicit AddBlock(Fit fit = Fit::exact) : fit_(fit) {}

  [[nodiscard]] Shape out(std::span<const Shape> in) const override {
    const detail::Join join("add", fit_, in);
    for (const auto& s : in) {
      KRAMA_EXPECTS(s[-1] == in[0][-1], "add: shapes differ: {} and {} in their channels",
                    to_string(in[0]), to_string(s));
    }
    return join.common();
  }
  [[nodiscard]] BlockNeeds needs(std::span<const Shape> /*in*/) const override { return {}; }
  [[nodiscard]] std::int64_t flops(std::span<const Shape> in) const override {
    return static_cast<std::int64_t>(in.size() - 1) * out(in).size();
  }
  void bind(ParamSpec& /*spec*/) override {}
  void forward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y) const override {
    auto sum = y.template as<T, 1>();
    if (same(x, y)) {
      kernels::add(ctx.exec(), sum, x[0].template as<T, 1>(), x[1].template as<T, 1>());
      for (std::size_t i = 2; i < x.size(); ++i) {
        kernels::add(ctx.exec(), sum, sum, x[i].template as<T, 1>());
      }
      return;
    }
    const auto shapes = detail::shapes_of(x);
    const detail::Join join("add", fit_, shapes);
    for (std::size_t i = 0; i < x.size(); ++i) {
      join.put(ctx.exec(), "krama::nn::add::forward", sum.data(), join.window(y.shape),
               static_cast<const T*>(x[i].template as<T, 1>().data()), shapes[i], i > 0);
    }
  }
  void backward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y, const Value& dy,
                std::span<const Value> dx) const override {
    const bool alike = same(x, y);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (dx[i].null()) continue;
      auto to = dx[i].template as<T, 1>();
      const auto from = dy.template as<T, 1>();
      if (alike) {
        copy(ctx.exec(), to, from);
      } else {
        const auto shapes = detail::shapes_of(x);
        const detail::Join join("add", fit_, shapes);
        join.take(ctx.exec(), "krama::nn::add::backward", to.data(), shapes[i],
                  static_cast<const T*>(from.data()), join.window(y.shape));
      }
    }
  }

 private:
  static bool same(std::span<const Value> x, const Value& y) {
    return std::all_of(x.begin(), x.end(), [&](const Value& v) { return v.shape == y.shape; });
  }

  Fit fit_;
};

/// The values' channels one behind the other.
template <Device D, class T>
class ConcatBlock final : public Block<D, T> {
 public:
  using typename Block<D, T>::Value;

  explicit ConcatBlock(Fit fit = Fit::exact) : fit_(fit) {}

  [[nodiscard]] Shape out(std::span<const Shape> in) const override {
    const detail::Join join("concat", fit_, in);
    std::int64_t channels = 0;
    for (const auto& s : in) channels += s[-1];
    return join.common().with(-1, channels);
  }
  [[nodiscard]] BlockNeeds needs(std::span<const Shape> /*in*/) const override { return {}; }
  [[nodiscard]] std::int64_t flops(std::span<const Shape> /*in*/) const override { return 0; }
  void bind(ParamSpec& /*spec*/) override {}
  void forward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y) const override {
    const auto shapes = detail::shapes_of(x);
    const detail::Join join("concat", fit_, shapes);
    std::int64_t channel = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      join.put(ctx.exec(), "krama::nn::concat::forward", y.template as<T, 1>().data(),
               join.window(y.shape, channel),
               static_cast<const T*>(x[i].template as<T, 1>().data()), shapes[i], false);
      channel += shapes[i][-1];
    }
  }
  void backward(const Context<D, T>& ctx, std::span<const Value> x, const Value& y, const Value& dy,
                std::span<const Value> dx) const override {
    const auto shapes = detail::shapes_of(x);
    const detail::Join join("concat", fit_, shapes);
    std::int64_t channel = 0;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (!dx[i].null()) {
        join.take(ctx.exec(), "krama::nn::concat::backward", dx[i].template as<T, 1>().data(),
                  shapes[i], static_cast<const T*>(dy.template as<T, 1>().data()),
                  join.window(y.shape, channel));
      }
      channel += shapes[i][-1];
    }
  }

 private:
  Fit fit_;
};

}  // namespace krama::nn
