// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <krama/definitions.hpp>

namespace krama::plan {

/// How times between the measured numbers of samples are filled in.
enum class CurveShape : std::uint8_t {
  linear,    ///< seconds = a * samples + b, fitted
  measured,  ///< through the measured means, straight between them
};

/// What is known of one rank's time for a step as a function of its samples, learned from step to
/// step. Means over the last steps are kept for each number of samples that was tried. Between and
/// beyond them the shape speaks, which is scaled so that it goes through the newest mean: where the
/// rank works now, the prediction is what was measured.
///
/// A single time far off is left out (a page fault, another process's burst). Two in a row on the same
/// side mean that the rank has another speed now: the whole curve is scaled, and counts for less.
class RankTimes {
 public:
  explicit RankTimes(CurveShape shape = CurveShape::linear, double window = 32)
      : shape_(shape), window_(window) {}

  /// One step with `samples` samples took `seconds`. Steps without samples tell nothing.
  void observe(std::int64_t samples, double seconds);

  [[nodiscard]] bool known() const { return !points_.empty(); }
  /// The last time was far off; the next one will tell whether the speed has changed.
  [[nodiscard]] bool suspicious() const { return suspect_ != 0; }

  /// Expected time of a step with `samples` samples; never falls with samples.
  [[nodiscard]] double seconds(std::int64_t samples) const {
    return samples <= 0 ? 0.0 : anchor_ * raw(static_cast<double>(samples));
  }
  [[nodiscard]] double samples_per_second() const {
    return known() ? static_cast<double>(now_) / seconds(now_) : 0.0;
  }
  /// Of single times around their mean, relative.
  [[nodiscard]] double noise() const;
  /// Standard error of `seconds` where the rank works now, relative.
  [[nodiscard]] double error() const;
  /// The fitted line.
  [[nodiscard]] double seconds_per_sample() const { return anchor_ * slope_; }
  [[nodiscard]] double seconds_per_step() const { return anchor_ * constant_; }

 private:
  struct Point {
    std::int64_t samples = 0;
    double seconds = 0;
    double weight = 0;
  };
  static constexpr std::size_t most_points = 12;
  static constexpr double forgotten = 0.05;

  /// What a time is compared with. For samples that were tried, the prediction; for others any time
  /// between "samples are all that counts" and "samples do not count" only tells more of the curve.
  [[nodiscard]] double expected(std::int64_t samples, bool tried, double found) const;

  /// Twenty percent, more where times scatter more.
  [[nodiscard]] bool is_far(double ratio) const;
  void learn_noise(double relative);
  void change_speed(double factor);
  Point* find(std::int64_t samples);
  Point& insert(std::int64_t samples);

  /// Weighted least squares of slope and constant. The constant is held towards 0, as strongly as the
  /// noise asks for: one point, or points close together, give a line through the origin.
  void fit();

  [[nodiscard]] double line(double n) const { return slope_ * n + constant_; }
  [[nodiscard]] double raw(double n) const;

  CurveShape shape_;
  double window_;
  std::vector<Point> points_;  ///< ascending in samples
  std::int64_t now_ = 0;       ///< samples of the newest step
  double suspect_ = 0;         ///< ratio of a time that was far off; 0: none
  double slope_ = 0;
  double constant_ = 0;
  double anchor_ = 1;
  double noise_squares_ = 0;
  double noise_count_ = 0;
};

}  // namespace krama::plan

#if KRAMA_DEFINITIONS

namespace krama::plan {

KRAMA_INLINE void RankTimes::observe(std::int64_t samples, double seconds) {
  if (samples <= 0 || !(seconds > 0)) return;
  const bool was_known = known();
  const bool moved = was_known && samples != now_;
  Point* p = find(samples);
  const double ratio = was_known ? seconds / expected(samples, p != nullptr, seconds) : 1.0;
  if (was_known && is_far(ratio)) {
    if (!suspicious() || (ratio > 1) != (suspect_ > 1)) {
      suspect_ = ratio;
      now_ = samples;
      return;
    }
    change_speed(std::sqrt(ratio * suspect_));
  } else if (p != nullptr && !moved) {
    learn_noise(seconds / p->seconds - 1.0);
  }
  suspect_ = 0;
  if (p == nullptr) p = &insert(samples);
  now_ = samples;
  for (auto& q : points_) q.weight *= 1.0 - 1.0 / window_;
  p->weight += 1.0;
  p->seconds += (seconds - p->seconds) / p->weight;
  std::erase_if(points_, [](const Point& q) { return q.weight < forgotten; });
  fit();
}

KRAMA_INLINE double RankTimes::noise() const {
  // A guess of 1 % stands for two steps until there are more.
  return std::sqrt((2 * 0.01 * 0.01 + noise_squares_) / (2 + noise_count_));
}

KRAMA_INLINE double RankTimes::error() const {
  for (const auto& p : points_) {
    if (p.samples == now_) return noise() / std::sqrt(p.weight);
  }
  return noise();
}

KRAMA_INLINE double RankTimes::expected(std::int64_t samples, bool tried, double found) const {
  if (tried) return seconds(samples);
  const double here = seconds(now_);
  const double scaled = here * static_cast<double>(samples) / static_cast<double>(now_);
  return std::clamp(found, std::min(here, scaled), std::max(here, scaled));
}

KRAMA_INLINE bool RankTimes::is_far(double ratio) const {
  const double bound = std::max(0.2, 4 * noise());
  return ratio > 1 + bound || ratio < 1 / (1 + bound);
}

KRAMA_INLINE void RankTimes::learn_noise(double relative) {
  const double keep = 1.0 - 1.0 / (4 * window_);
  noise_squares_ = keep * noise_squares_ + relative * relative;
  noise_count_ = keep * noise_count_ + 1;
}

KRAMA_INLINE void RankTimes::change_speed(double factor) {
  for (auto& p : points_) {
    p.seconds *= factor;
    p.weight *= 0.25;
  }
}

KRAMA_INLINE auto RankTimes::find(std::int64_t samples) -> Point* {
  for (auto& p : points_) {
    if (p.samples == samples) return &p;
  }
  return nullptr;
}

KRAMA_INLINE auto RankTimes::insert(std::int64_t samples) -> Point& {
  if (points_.size() == most_points) {
    points_.erase(
        std::min_element(points_.begin(), points_.end(),
                         [](const Point& a, const Point& b) { return a.weight < b.weight; }));
  }
  const auto at = std::find_if(points_.begin(), points_.end(),
                               [&](const Point& p) { return p.samples > samples; });
  return *points_.insert(at, {samples, 0, 0});
}

KRAMA_INLINE void RankTimes::fit() {
  const double held = (noise() / 0.2) * (noise() / 0.2);
  double nn = 0;
  double n1 = 0;
  double w1 = held;
  double nt = 0;
  double t1 = 0;
  for (const auto& p : points_) {
    const auto n = static_cast<double>(p.samples);
    nn += p.weight * n * n;
    n1 += p.weight * n;
    w1 += p.weight;
    nt += p.weight * n * p.seconds;
    t1 += p.weight * p.seconds;
  }
  const double det = nn * w1 - n1 * n1;
  slope_ = nt / nn;
  constant_ = 0;
  if (det > 0) {
    const double constant = std::max(0.0, (nn * t1 - n1 * nt) / det);
    const double slope = (nt - constant * n1) / nn;
    // Samples are never free: a line that is flat would ask for all of them.
    const double flattest = 0.05 * slope_;
    if (constant > 0) {
      slope_ = std::max(slope, flattest);
      constant_ = std::max(0.0, (t1 - slope_ * n1) / (w1 - held));
    }
  }
  anchor_ = 1.0;
  if (const Point* p = find(now_)) anchor_ = p->seconds / raw(static_cast<double>(now_));
}

KRAMA_INLINE double RankTimes::raw(double n) const {
  if (shape_ == CurveShape::linear || points_.size() < 2) return line(n);
  const auto at = [](const Point& p) { return static_cast<double>(p.samples); };
  // Beyond the points, the line's proportions.
  if (n <= at(points_.front()))
    return points_.front().seconds * line(n) / line(at(points_.front()));
  double low = points_.front().seconds;  // running maximum: more samples never take less time
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const double high = std::max(low, points_[i].seconds);
    if (n <= at(points_[i])) {
      const double part = (n - at(points_[i - 1])) / (at(points_[i]) - at(points_[i - 1]));
      return low + part * (high - low);
    }
    low = high;
  }
  return low * line(n) / line(at(points_.back()));
}

}  // namespace krama::plan

#endif  // KRAMA_DEFINITIONS
