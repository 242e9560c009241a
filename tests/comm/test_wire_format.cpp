// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/self.hpp>
#include <krama/comm/wire_encoding.hpp>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

using Catch::Matchers::ContainsSubstring;
using krama::WireEncoding;
using krama::WireFormat;
namespace detail = krama::comm::detail;

namespace {

const std::vector<WireFormat> rounded{WireFormat::bf16, WireFormat::f16, WireFormat::int8};

/// Of many magnitudes, both signs, zeros among them.
std::vector<float> numbers(std::int64_t n, std::uint32_t stream = 1) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<std::uint64_t>(i);
    const float u = 2 * krama::uniform({7, stream, 0}, k) - 1;
    v.push_back(i % 13 == 5 ? 0.0F : std::ldexp(u, static_cast<int>(k % 9) - 4));
  }
  return v;
}

/// What the receiver makes of a message of all of `v`, through the bytes alone.
std::vector<float> sent(const WireEncoding& e, std::vector<float> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  detail::encode_in_place(e, v.data(), 0, n);
  std::vector<float> slot(v.size() + detail::landing_slack, -9.0F);
  const auto* bytes = reinterpret_cast<const unsigned char*>(v.data());
  std::copy(bytes, bytes + krama::wire_bytes(e.format, n),
            detail::landing(e.format, slot.data(), n));
  detail::decode_in_place(e.format, slot.data(), n);
  slot.resize(v.size());
  return slot;
}

/// The table of WireFormat.
double bound(WireFormat f, float x, const std::vector<float>& v, std::size_t i) {
  const double a = std::abs(static_cast<double>(x));
  switch (f) {
    case WireFormat::f32:
      return 0;
    case WireFormat::bf16:
      return a / 256;
    case WireFormat::f16:
      return std::max(a / 2048, 0x1p-25);
    case WireFormat::int8: {
      const std::size_t begin = i / krama::wire_block * krama::wire_block;
      double m = 0;
      for (std::size_t k = begin; k < std::min(begin + krama::wire_block, v.size()); ++k) {
        m = std::max(m, std::abs(static_cast<double>(v[k])));
      }
      return m / 126;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("wire formats: names, and bytes of a message", "[comm]") {
  for (const auto f : rounded) CHECK(krama::parse_wire_format(krama::name_of(f), "--wire") == f);
  CHECK(krama::parse_wire_format("f32", "--wire") == WireFormat::f32);
  CHECK_THROWS_WITH(krama::parse_wire_format("fp16", "--wire"),
                    ContainsSubstring("--wire is \"fp16\"; wanted f32, bf16, f16 or int8"));
  setenv("KRAMA_WIRE", "int8", 1);
  CHECK(krama::default_wire_format() == WireFormat::int8);
  setenv("KRAMA_WIRE", "half", 1);
  CHECK_THROWS_WITH(krama::default_wire_format(), ContainsSubstring("KRAMA_WIRE is \"half\""));
  unsetenv("KRAMA_WIRE");
  CHECK(krama::default_wire_format() == WireFormat::f32);

  CHECK(krama::wire_bytes(WireFormat::f32, 1000) == 4000);
  CHECK(krama::wire_bytes(WireFormat::f32, 1000, 8) == 8000);
  CHECK(krama::wire_bytes(WireFormat::bf16, 1001) == 2002);
  CHECK(krama::wire_bytes(WireFormat::f16, 1001) == 2002);
  CHECK(krama::wire_bytes(WireFormat::int8, 512) == 512 + 2 * 4);
  CHECK(krama::wire_bytes(WireFormat::int8, 513) == 513 + 3 * 4);
  CHECK(krama::wire_bytes(WireFormat::int8, 1) == 4);
  CHECK(krama::wire_bytes(WireFormat::int8, 0) == 0);
}

TEST_CASE("wire formats: every length arrives within the error of its format", "[comm]") {
  for (const auto f : rounded) {
    for (const std::int64_t n : {0, 1, 2, 3, 255, 256, 257, 258, 511, 512, 513, 1000, 4099}) {
      CAPTURE(krama::name_of(f), n);
      const auto v = numbers(n);
      const auto got = sent({f, {}, {3, 1, 4}, 77}, v);
      for (std::size_t i = 0; i < v.size(); ++i) {
        const double error = std::abs(static_cast<double>(got[i]) - static_cast<double>(v[i]));
        if (!(error <= bound(f, v[i], v, i))) {
          CAPTURE(i, v[i], got[i]);
          CHECK(error <= bound(f, v[i], v, i));
        }
      }
      if (n > 3 && f != WireFormat::int8) CHECK(got != v);  // or nothing was rounded at all
    }
  }
}

TEST_CASE("wire formats: what a message reads as is known to its sender exactly", "[comm]") {
  for (const auto f : rounded) {
    const auto v = numbers(1000);
    std::vector<float> residual = numbers(1000, 2);
    const auto owed = residual;
    const auto got = sent({f, residual, {3, 1, 4}, 0}, v);
    for (std::size_t i = 0; i < v.size(); ++i) {
      const float wanted = v[i] + owed[i];
      if (residual[i] != wanted - got[i]) CHECK(residual[i] == wanted - got[i]);
    }
  }
  // A message of one element in int8 travels as it is, and pays what is owed.
  std::vector<float> residual{0.5F};
  CHECK(sent({WireFormat::int8, residual, {}, 0}, {0.25F}) == std::vector<float>{0.75F});
  CHECK(residual[0] == 0.0F);
}

TEST_CASE("wire formats: int8 decodes to exact products, whatever the scale", "[comm]") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const float m = std::ldexp(1 + krama::uniform({5, 5, 5}, i), static_cast<int>(i % 200) - 90);
    const float scale = detail::int8_scale(std::bit_cast<std::uint32_t>(m));
    const double exact = static_cast<double>(scale) * 127.0;
    if (exact != static_cast<double>(scale * 127.0F) || exact < static_cast<double>(m) ||
        exact > static_cast<double>(m) * (127.0 / 126)) {
      CAPTURE(m, scale);
      CHECK(exact == static_cast<double>(scale * 127.0F));
      CHECK(exact >= static_cast<double>(m));
      CHECK(exact <= static_cast<double>(m) * (127.0 / 126));
    }
  }
}

TEST_CASE("wire formats: what is not finite stays so", "[comm]") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const auto f : rounded) {
    for (const float bad : {inf, -inf, std::nanf("")}) {
      auto v = numbers(600);
      v[300] = bad;
      const auto got = sent({f, {}, {1, 1, 1}, 0}, v);
      CHECK_FALSE(std::isfinite(got[300]));
      CHECK(std::isfinite(got[10]));  // another block
    }
  }
  auto v = numbers(600);
  v[300] = 1e5F;
  CHECK(std::isinf(sent({WireFormat::f16, {}, {}, 0}, v)[300]));  // never a wrong finite number
}

TEST_CASE("wire formats: int8 is unbiased, and the same numbers give the same bits", "[comm]") {
  const auto v = numbers(512);
  const int steps = 4000;
  std::vector<double> mean(v.size(), 0.0);
  for (std::uint32_t s = 0; s < steps; ++s) {
    const auto got = sent({WireFormat::int8, {}, {1, 9, s}, 0}, v);
    for (std::size_t i = 0; i < v.size(); ++i) mean[i] += static_cast<double>(got[i]) / steps;
  }
  // A step of the scale has a standard deviation of at most half of it; five of the mean's, over all
  // elements, are not met by chance, and the seed is fixed.
  double largest = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double step = bound(WireFormat::int8, v[i], v, i);
    largest = std::max(largest, std::abs(mean[i] - static_cast<double>(v[i])) / step);
  }
  CHECK(largest < 5 * 0.5 / std::sqrt(static_cast<double>(steps)));
  CHECK(sent({WireFormat::int8, {}, {1, 9, 3}, 0}, v) ==
        sent({WireFormat::int8, {}, {1, 9, 3}, 0}, v));
  CHECK(sent({WireFormat::int8, {}, {1, 9, 3}, 0}, v) !=
        sent({WireFormat::int8, {}, {1, 10, 3}, 0}, v));
  // Elements have random numbers of their own, wherever a message begins.
  float a[8];
  float b[8];
  detail::uniforms({1, 2, 3}, 1001, 8, a);
  detail::uniforms({1, 2, 3}, 1006, 3, b);
  for (int i = 0; i < 3; ++i) CHECK(b[i] == a[5 + i]);
  CHECK(a[0] == krama::uniform({1, 2, 3}, 1001));
}

TEST_CASE("wire formats: sums of doubles, and residuals of another length, are refused", "[comm]") {
  krama::SelfComm self("one");
  const Kokkos::DefaultHostExecutionSpace exec;
  std::vector<double> d(10);
  std::vector<float> f(10);
  std::vector<float> residual(9);
  const auto start = [&]<class A>(std::vector<A>& v, const WireEncoding& e) {
    const krama::TensorRef<A, 1, Kokkos::HostSpace> t(v.data(), {10});
    return self.start_reduce_scatter(exec, t, krama::Partition::even(10, 1), "v", e);
  };
  CHECK_THROWS_WITH(start(d, {WireFormat::bf16, {}, {}, 0}),
                    ContainsSubstring("sums of f64 cannot travel as bf16"));
  CHECK_THROWS_WITH(start(f, {WireFormat::bf16, residual, {}, 0}),
                    ContainsSubstring("9 residuals for 10 elements"));
  CHECK_NOTHROW(start(f, {WireFormat::bf16, {}, {}, 0}));
  CHECK_NOTHROW(start(d, {}));
}
