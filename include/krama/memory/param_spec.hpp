// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <krama/core/extents.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// How a parameter gets its first values. Values are a pure function of (seed, name, element), made
/// in double on the host: the same on every rank and back end.
struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  double scale = 0.0;  ///< the constant, the standard deviation, or the bound of [-b, b)

  static Init zeros() { return {Kind::constant, 0.0}; }
  static Init ones() { return {Kind::constant, 1.0}; }
  static Init constant(double c) { return {Kind::constant, c}; }
  static Init normal(double standard_deviation) { return {Kind::normal, standard_deviation}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  /// Uniform with variance gain^2 / fan_in (He et al. 2015 for gain = sqrt(2)).
  static Init kaiming_uniform(std::int64_t fan_in, double gain = 1.4142135623730951);
  /// Uniform with variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010).
  static Init xavier_uniform(std::int64_t fan_in, std::int64_t fan_out);

  /// `other` where nothing was chosen, which is how zeros read: a layer's way to its own default.
  [[nodiscard]] Init or_else(const Init& other) const {
    return kind == Kind::constant && scale == 0.0 ? other : *this;
  }
};

struct ParamOptions {
  bool decay = true;    ///< takes part in weight decay (matrices do; biases and norms do not)
  bool frozen = false;  ///< never updated, has no gradient
  /// State that is not optimised (running statistics): frozen, no decay, kept in accum_t<T>. Forward
  /// in training proposes its next value; a step commits it once, on its owner, and gathers it.
  bool buffer = false;
  std::string tie =
      {};  ///< full name of the parameter whose memory this one shares; empty: its own
};

struct ParamInfo {
  std::string name;
  Shape extents;
  Init init;
  ParamOptions options;
};

/// Where layers declare their parameters, in the order of their ids. Names are joined with dots:
/// "blocks.3.attention.qkv.weight".
class ParamSpec {
 public:
  void operator()(std::string_view name, const Shape& extents, Init init,
                  ParamOptions options = {});

  /// Runs `declare` with `name` added to the prefix.
  template <class Declare>
  void within(std::string_view name, Declare&& declare) {
    const std::string outer = prefix_;
    if (!name.empty())
      prefix_ = outer.empty() ? std::string(name) : outer + "." + std::string(name);
    declare();
    prefix_ = outer;
  }

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(infos_.size()); }
  [[nodiscard]] const std::vector<ParamInfo>& infos() const { return infos_; }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
  std::vector<ParamInfo> infos_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE void ParamSpec::operator()(std::string_view name, const Shape& extents, Init init,
                                        ParamOptions options) {
  std::string full = prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
  for (const auto& p : infos_) {
    KRAMA_EXPECTS(p.name != full, "two parameters are called \"{}\"", full);
  }
  if (options.buffer) {
    KRAMA_EXPECTS(options.tie.empty(), "buffer \"{}\" is tied to \"{}\"; buffers cannot be tied",
                  full, options.tie);
    options.frozen = true;
    options.decay = false;
  }
  infos_.push_back({std::move(full), extents, init, std::move(options)});
}

KRAMA_INLINE Init Init::Init::kaiming_uniform(std::int64_t fan_in, double gain) {
  KRAMA_EXPECTS(fan_in > 0, "kaiming_uniform: fan-in must be positive, not {}", fan_in);
  return uniform(gain * std::sqrt(3.0 / static_cast<double>(fan_in)));
}

KRAMA_INLINE Init Init::Init::xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  KRAMA_EXPECTS(fan_in + fan_out > 0, "xavier_uniform: fans must be positive, not {} and {}",
                fan_in, fan_out);
  return uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
