// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include <krama/core/error.hpp>
#include <krama/core/join.hpp>

namespace krama {

/// Sizes of a tensor whose rank is known to the compiler; row-major, outermost first.
template <int R>
using Extents = std::array<std::int64_t, static_cast<std::size_t>(R)>;

/// a * b for sizes; throws instead of wrapping around.
inline std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  KRAMA_EXPECTS(a >= 0 && b >= 0, "extents must not be negative: {} x {}", a, b);
  KRAMA_EXPECTS(b == 0 || a <= std::numeric_limits<std::int64_t>::max() / b,
                "extents overflow 64 bits: {} x {}", a, b);
  return a * b;
}

/// Number of elements; 1 for rank 0.
inline std::int64_t product(std::span<const std::int64_t> extents) {
  std::int64_t n = 1;
  for (const auto e : extents) n = checked_product(n, e);
  return n;
}

/// Sizes of a value of a model: rank known at run time, at most `max_rank`. Models and blocks work
/// with shapes; layers and kernels see static ranks.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) : rank_(static_cast<int>(extents.size())) {
    KRAMA_EXPECTS(rank_ <= max_rank, "a shape has at most {} extents, not {}", max_rank, rank_);
    std::size_t i = 0;
    for (const auto e : extents) {
      KRAMA_EXPECTS(e >= 0, "extent {} of a shape is negative: {}", i, e);
      extents_[i++] = e;
    }
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](int i) const {
    return extents_[static_cast<std::size_t>(i < 0 ? rank_ + i : i)];
  }
  [[nodiscard]] std::span<const std::int64_t> span() const {
    return {extents_.data(), static_cast<std::size_t>(rank_)};
  }
  [[nodiscard]] std::int64_t size() const { return product(span()); }

  /// The same shape with extent `i` (negative: from the end) replaced.
  [[nodiscard]] Shape with(int i, std::int64_t extent) const {
    Shape s = *this;
    s.extents_[static_cast<std::size_t>(i < 0 ? rank_ + i : i)] = extent;
    return s;
  }

  /// The same elements seen with `R` extents: leading extents are multiplied together, or ones put
  /// before them. A chain hands each layer its input at the rank the layer declares.
  template <int R>
  [[nodiscard]] Extents<R> collapsed() const {
    Extents<R> out{};
    out.fill(1);
    for (int i = 0; i < rank_; ++i) {
      const int from_end = rank_ - 1 - i;
      const int j = from_end < R ? R - 1 - from_end : 0;
      auto& target = out[static_cast<std::size_t>(j)];
      target = from_end < R - 1 ? (*this)[i] : checked_product(target, (*this)[i]);
    }
    return out;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.extents_ == b.extents_;
  }

 private:
  int rank_ = 0;
  std::array<std::int64_t, max_rank> extents_{};
};

/// "(16, 128, 256)"
inline std::string to_string(std::span<const std::int64_t> extents) {
  return fmt::format("({})", join(extents, ", "));
}
inline std::string to_string(const Shape& shape) { return to_string(shape.span()); }

}  // namespace krama
