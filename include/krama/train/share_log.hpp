// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/plan/shares.hpp>

namespace krama::train {

/// Who took how much, from the first step on: every change with the step it came into force at. Given
/// to another run, it makes that run share out every batch in the same way, and so compute the same
/// bits, whatever the ranks' speeds are then.
class ShareLog {
 public:
  void add(plan::ShareChange change) { changes_.push_back(std::move(change)); }

  [[nodiscard]] const std::vector<plan::ShareChange>& changes() const { return changes_; }
  [[nodiscard]] bool empty() const { return changes_.empty(); }
  /// Shares of step `step`; null before the first entry.
  [[nodiscard]] const plan::Shares* at(std::int64_t step) const;

  /// A line an entry: "step samples:samples:… reason".
  [[nodiscard]] std::string text() const;

  /// \throws Error, with the line, for anything that `text` does not write.
  static ShareLog parse(std::string_view text);

 private:
  static plan::ShareChange parse_line(std::string_view line, const ShareLog& before);
  static bool number(std::string_view& text, std::int64_t& value);

  std::vector<plan::ShareChange> changes_;
};

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE const plan::Shares* ShareLog::at(std::int64_t step) const {
  const plan::Shares* found = nullptr;
  for (const auto& c : changes_) {
    if (c.step <= step) found = &c.after;
  }
  return found;
}

KRAMA_INLINE std::string ShareLog::text() const {
  std::string out;
  for (const auto& c : changes_) {
    out += fmt::format("{} ", c.step);
    for (std::size_t r = 0; r < c.after.size(); ++r) {
      out += fmt::format("{}{}", r == 0 ? "" : ":", c.after[r]);
    }
    out += fmt::format(" {}\n", c.reason);
  }
  return out;
}

KRAMA_INLINE ShareLog ShareLog::parse(std::string_view text) {
  ShareLog log;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    log.add(parse_line(line, log));
  }
  return log;
}

KRAMA_INLINE plan::ShareChange ShareLog::parse_line(std::string_view line, const ShareLog& before) {
  plan::ShareChange c;
  std::string_view rest = line;
  bool good = number(rest, c.step) && !rest.empty() && rest.front() == ' ';
  do {
    if (!good) break;
    rest.remove_prefix(1);
    good = number(rest, c.after.emplace_back(0)) && c.after.back() >= 0;
  } while (good && !rest.empty() && rest.front() == ':');
  good = good && !rest.empty() && rest.front() == ' ' && c.step >= 0;
  if (!before.empty()) {
    good = good && c.step >= before.changes_.back().step;
    c.before = before.changes_.back().after;
  }
  KRAMA_EXPECTS(good, "share log: the line \"{}\" is damaged; wanted \"step 3:1 reason\"", line);
  c.reason = rest.substr(1);
  return c;
}

KRAMA_INLINE bool ShareLog::number(std::string_view& text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc{};
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
