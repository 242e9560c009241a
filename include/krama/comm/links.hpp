// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// One direction of a connection, as the usual model has it: a message of n bytes takes
/// latency_seconds + n / bytes_per_second.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 1;

  /// For which the bytes keep the sender's port busy.
  [[nodiscard]] double transfer_seconds(std::int64_t bytes) const {
    return static_cast<double>(bytes) / bytes_per_second;
  }
  /// Until the last byte is there.
  [[nodiscard]] double seconds(std::int64_t bytes) const {
    return latency_seconds + transfer_seconds(bytes);
  }
  friend bool operator==(const Link&, const Link&) = default;
};

/// What an unmeasured link is taken for: two processes that copy through the memory of one host.
inline constexpr Link assumed_link{2e-6, 4e9};

/// One link for each ordered pair of groups of ranks; `link(g, g)` is the one between two ranks of
/// group g. Knows groups by number only. As text it survives a round trip to the bit, so ranks and
/// checkpoints can hand it on.
class LinkTable {
 public:
  /// More groups than any job has: the table is square, and the number may come from a file.
  static constexpr int most_groups = 4096;

  /// \throws Error when there is no group, or `all` is no link.
  explicit LinkTable(int groups = 1, const Link& all = assumed_link);

  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] const Link& link(int from_group, int to_group) const {
    return links_[index(from_group, to_group)];
  }
  /// \throws Error when the latency is negative, the bandwidth is not positive, or one is not finite.
  void set(int from_group, int to_group, const Link& link);

  /// "links 2", then a line "from to latency bandwidth" for each pair, in order.
  [[nodiscard]] std::string text() const;

  /// What `text()` wrote. \throws Error with the line that is not as it wrote it.
  static LinkTable parse(std::string_view text);

  friend bool operator==(const LinkTable&, const LinkTable&) = default;

 private:
  /// Takes words from the front of a text. Independent of the locale.
  struct Reader {
    std::string_view rest;
    int line;

    void word(std::string_view wanted);
    template <class T>
    T number() {
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
      T value{};
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
      KRAMA_EXPECTS(error == std::errc{}, "links: line {} wants a number at \"{}\"", line,
                    rest.substr(0, rest.find('\n')));
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      return value;
    }
    void end_of_line();
  };

  void check(int from, int to, const Link& l) const;

  [[nodiscard]] std::size_t index(int from, int to) const;

  int groups_;
  std::vector<Link> links_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE LinkTable::LinkTable(int groups, const Link& all) : groups_(groups) {
  KRAMA_EXPECTS(groups >= 1 && groups <= most_groups, "links: {} groups; wanted 1 to {}", groups,
                most_groups);
  check(0, 0, all);
  links_.assign(static_cast<std::size_t>(groups) * static_cast<std::size_t>(groups), all);
}

KRAMA_INLINE void LinkTable::set(int from_group, int to_group, const Link& link) {
  const auto at = index(from_group, to_group);
  check(from_group, to_group, link);
  links_[at] = link;
}

KRAMA_INLINE std::string LinkTable::text() const {
  std::string lines = fmt::format("links {}\n", groups_);
  for (int from = 0; from < groups_; ++from) {
    for (int to = 0; to < groups_; ++to) {
      const Link& l = link(from, to);
      lines += fmt::format("{} {} {} {}\n", from, to, l.latency_seconds, l.bytes_per_second);
    }
  }
  return lines;
}

KRAMA_INLINE LinkTable LinkTable::parse(std::string_view text) {
  Reader reader{text, 1};
  reader.word("links");
  LinkTable table(reader.number<int>());
  reader.end_of_line();
  for (int from = 0; from < table.groups_; ++from) {
    for (int to = 0; to < table.groups_; ++to) {
      const int f = reader.number<int>();
      const int t = reader.number<int>();
      KRAMA_EXPECTS(f == from && t == to, "links: line {} is of pair {} {}; wanted pair {} {}",
                    reader.line, f, t, from, to);
      const double latency = reader.number<double>();
      table.set(from, to, {latency, reader.number<double>()});
      reader.end_of_line();
    }
  }
  KRAMA_EXPECTS(reader.rest.empty(), "links: more follows after the {} lines of {} groups",
                reader.line - 1, table.groups_);
  return table;
}

KRAMA_INLINE void LinkTable::Reader::word(std::string_view wanted) {
  KRAMA_EXPECTS(rest.substr(0, wanted.size()) == wanted, "links: line {} wants \"{}\"", line,
                wanted);
  rest.remove_prefix(wanted.size());
}

KRAMA_INLINE void LinkTable::Reader::end_of_line() {
  word("\n");
  ++line;
}

KRAMA_INLINE void LinkTable::check(int from, int to, const Link& l) const {
  KRAMA_EXPECTS(std::isfinite(l.latency_seconds) && l.latency_seconds >= 0 &&
                    std::isfinite(l.bytes_per_second) && l.bytes_per_second > 0,
                "links: from group {} to group {}: a latency of {} s and {} bytes/s; wanted finite "
                "numbers, 0 or more and above 0",
                from, to, l.latency_seconds, l.bytes_per_second);
}

KRAMA_INLINE std::size_t LinkTable::index(int from, int to) const {
  KRAMA_EXPECTS(from >= 0 && from < groups_ && to >= 0 && to < groups_,
                "links: from group {} to group {}, of {} groups", from, to, groups_);
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(groups_) +
         static_cast<std::size_t>(to);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
