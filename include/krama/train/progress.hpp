// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama::train {

/// What the progress line shows.
struct ProgressState {
  std::int64_t step = 0;
  std::int64_t steps = 0;  ///< 0: no limit but time
  double fraction = 0;     ///< of the job that is done, 0 to 1
  double seconds = 0;      ///< elapsed
  double loss = 0;
  double tokens_per_second = 0;    ///< in all
  std::vector<double> rank_speed;  ///< tokens/s of each rank while it computes
  std::vector<double> rank_share;  ///< of the global batch, 0 to 1
};

std::string format_seconds(double seconds);
std::string format_count(double n);

/// "[=====>    ] step 120/400  loss 2.134  41.2k tok/s (r0 75% 30.1k, r1 25% 11.1k)  0:41 < 1:20"
std::string progress_line(const ProgressState& p);

/// Shows the line on stdout: rewritten in place on a terminal (or when KRAMA_PROGRESS=bar), one line
/// every `plain_every` seconds elsewhere; nothing on ranks other than 0 or with KRAMA_PROGRESS=off.
class Progress {
 public:
  Progress(bool shown, double plain_every);

  void show(const ProgressState& p, bool last);

  /// A line of its own between progress lines.
  void say(const std::string& text);

 private:
  bool shown_;
  bool in_place_ = false;
  double plain_every_;
  double shown_at_ = -1e9;
  std::size_t length_ = 0;
};

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE std::string format_seconds(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

KRAMA_INLINE std::string format_count(double n) {
  return n >= 1e6   ? fmt::format("{:.1f}M", n / 1e6)
         : n >= 1e4 ? fmt::format("{:.1f}k", n / 1e3)
                    : fmt::format("{:.0f}", n);
}

KRAMA_INLINE std::string progress_line(const ProgressState& p) {
  constexpr int width = 20;
  const int done = static_cast<int>(p.fraction * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < done ? '=' : i == done ? '>' : ' ';
  std::string ranks;
  for (std::size_t r = 0; r < p.rank_speed.size(); ++r) {
    ranks += fmt::format("{}r{} {:.0f}% {}", r == 0 ? "" : ", ", r, 100.0 * p.rank_share[r],
                         format_count(p.rank_speed[r]));
  }
  const double left = p.fraction > 0 ? p.seconds * (1.0 - p.fraction) / p.fraction : 0.0;
  return fmt::format("[{}] step {}{}  loss {:.4f}  {} tok/s ({})  {} < {}", bar, p.step,
                     p.steps > 0 ? fmt::format("/{}", p.steps) : "", p.loss,
                     format_count(p.tokens_per_second), ranks, format_seconds(p.seconds),
                     format_seconds(left));
}

KRAMA_INLINE Progress::Progress(bool shown, double plain_every)
    : shown_(shown), plain_every_(plain_every) {
  const char* wish = std::getenv("KRAMA_PROGRESS");
  const std::string how = wish != nullptr ? wish : "";
  if (how == "off") shown_ = false;
  in_place_ = how == "bar" || (how.empty() && isatty(STDOUT_FILENO) == 1);
}

KRAMA_INLINE void Progress::show(const ProgressState& p, bool last) {
  if (!shown_) return;
  const double pause = in_place_ ? 0.2 : plain_every_;
  if (!last && p.seconds - shown_at_ < pause) return;
  shown_at_ = p.seconds;
  const std::string line = progress_line(p);
  if (in_place_) {
    // Blank what a longer line left behind.
    const std::size_t blanks = line.size() < length_ ? length_ - line.size() : 0;
    std::fputs(fmt::format("\r{}{}", line, std::string(blanks, ' ')).c_str(), stdout);
    length_ = line.size();
    if (last) std::fputs("\n", stdout);
  } else {
    std::fputs((line + "\n").c_str(), stdout);
  }
  std::fflush(stdout);
}

KRAMA_INLINE void Progress::say(const std::string& text) {
  if (!shown_) return;
  if (in_place_ && length_ > 0) {
    std::fputs(fmt::format("\r{}\r", std::string(length_, ' ')).c_str(), stdout);
    length_ = 0;
  }
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
