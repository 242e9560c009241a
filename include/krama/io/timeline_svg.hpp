// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/definitions.hpp>
#include <krama/io/atomic_file.hpp>
#include <krama/io/detail/fixed_number.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krama::io {

/// A picture of who did what when: one row for each lane, a box for each event, a time axis. It needs
/// no viewer but a browser; hovering over a box shows its name and duration. Times are in microseconds
/// from any common start. Nothing is written before `commit`; the file appears as a whole (AtomicFile).
class TimelineSvg {
 public:
  /// Rows from top to bottom, in the order of the calls. \return the row's number
  std::size_t row(std::string name);
  /// `kind` chooses the colour: equal kinds look alike.
  void box(std::size_t row, std::string name, std::size_t kind, double start, double duration);

  /// The whole picture as text.
  [[nodiscard]] std::string text() const;

  void commit(const std::filesystem::path& path, const detail::SysCalls& calls = {}) const;

 private:
  struct Box {
    std::size_t row;
    std::string name;
    std::size_t kind;
    double start, duration;
  };
  static constexpr double width = 1400, names = 160, row_height = 24, axis_height = 24;
  // Told apart by readers who see no red or green (Okabe and Ito).
  static constexpr std::array<std::string_view, 8> colours = {
      "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"};

  static double top(std::size_t row) { return row_height * static_cast<double>(row); }
  static std::string number(double value) { return detail::fixed_number(value, 2); }
  static std::string escaped(std::string_view text);

  std::vector<std::string> rows_;
  std::vector<Box> boxes_;
};

}  // namespace krama::io

#if KRAMA_DEFINITIONS

namespace krama::io {

KRAMA_INLINE std::size_t TimelineSvg::row(std::string name) {
  rows_.push_back(std::move(name));
  return rows_.size() - 1;
}

KRAMA_INLINE void TimelineSvg::box(std::size_t row, std::string name, std::size_t kind,
                                   double start, double duration) {
  if (row >= rows_.size()) throw std::invalid_argument("TimelineSvg: no such row");
  if (!(duration >= 0.0) || !(std::abs(start) < 1e15) || !(duration < 1e15)) {
    throw std::invalid_argument("TimelineSvg: impossible time");
  }
  boxes_.push_back({row, std::move(name), kind, start, duration});
}

KRAMA_INLINE std::string TimelineSvg::text() const {
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (const auto& b : boxes_) {
    first = std::min(first, b.start);
    last = std::max(last, b.start + b.duration);
  }
  if (boxes_.empty()) first = last = 0;
  const double scale = (width - names) / std::max(last - first, 1e-3);
  const double height = row_height * static_cast<double>(rows_.size()) + axis_height;
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) +
                    "\" height=\"" + number(height) + "\" font-family=\"sans-serif\" " +
                    "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out += "<text x=\"4\" y=\"" + number(top(r) + 16) + "\">" + escaped(rows_[r]) + "</text>\n";
  }
  for (const auto& b : boxes_) {
    out += "<rect x=\"" + number(names + (b.start - first) * scale) + "\" y=\"" +
           number(top(b.row) + 2) + "\" width=\"" + number(std::max(b.duration * scale, 0.2)) +
           "\" height=\"" + number(row_height - 4) + "\" fill=\"" +
           std::string(colours[b.kind % colours.size()]) + "\"><title>" + escaped(b.name) + ", " +
           number(b.duration) + " us</title></rect>\n";
  }
  const double bottom = row_height * static_cast<double>(rows_.size()) + 16;
  for (int tick = 0; tick <= 4; ++tick) {
    const double part = tick / 4.0;
    out += "<text x=\"" + number(names + part * (width - names)) + "\" y=\"" + number(bottom) +
           "\" text-anchor=\"" + (tick == 4 ? "end" : "middle") + "\">" +
           number(part * (last - first) * 1e-3) + " ms</text>\n";
  }
  return out + "</svg>\n";
}

KRAMA_INLINE void TimelineSvg::commit(const std::filesystem::path& path,
                                      const detail::SysCalls& calls) const {
  AtomicFile file(path, 0, calls);
  const std::string picture = text();
  file.write(std::string_view(picture));
  file.commit();
}

KRAMA_INLINE std::string TimelineSvg::escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace krama::io

#endif  // KRAMA_DEFINITIONS
