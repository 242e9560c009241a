// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/rank_facts.hpp>
#include <krama/comm/transport.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// Which ranks belong together. A group is the ranks whose devices are of one vendor, or, where ranks
/// ask for a group by name, those that gave the same name. Groups are ordered by their first rank,
/// ranks within a group by number, hosts by their first rank. Made from the same facts it is the same
/// on every rank; it never changes.
class Topology {
 public:
  /// `facts[r]` are of rank r. \throws Error when there is no rank or a group's name cannot be one.
  explicit Topology(std::vector<RankFacts> facts);

  [[nodiscard]] int ranks() const { return static_cast<int>(facts_.size()); }
  [[nodiscard]] const RankFacts& facts(int rank) const { return at(facts_, rank, "rank"); }

  [[nodiscard]] int groups() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int group_of(int rank) const { return at(group_of_, rank, "rank"); }
  /// The group of every rank, by rank.
  [[nodiscard]] const std::vector<int>& group_numbers() const { return group_of_; }
  [[nodiscard]] const std::vector<int>& members(int group) const {
    return at(members_, group, "group");
  }
  /// What its ranks asked for, or their vendor.
  [[nodiscard]] const std::string& group_name(int group) const {
    return at(group_names_, group, "group");
  }
  /// The vendor of all devices of the group; empty where they differ.
  [[nodiscard]] std::string vendor_of(int group) const;

  [[nodiscard]] int hosts() const { return static_cast<int>(on_host_.size()); }
  [[nodiscard]] int host_of(int rank) const { return at(host_of_, rank, "rank"); }
  [[nodiscard]] const std::vector<int>& on_host(int host) const {
    return at(on_host_, host, "host");
  }

  /// The two ranks that stand for the link from one group to another: the first pair that shares a
  /// host, or the groups' first ranks; the other direction has the same two. Within a group its
  /// first two ranks, or its only one twice.
  [[nodiscard]] std::pair<int, int> link_pair(int from_group, int to_group) const;

  /// The ranks that stand for a link between two groups, in order; none where there is one group.
  [[nodiscard]] std::vector<int> border_ranks() const;

 private:
  /// Appends rank r to the list of its name; the list's number.
  static int place(std::map<std::string, int>& numbers, const std::string& name,
                   std::vector<std::vector<int>>& lists, std::size_t r);

  /// Names stand in option texts and tables, so they are plain words.
  static void check_group_name(std::string_view name, std::size_t rank);

  template <class T>
  static const T& at(const std::vector<T>& all, int i, const char* what) {
    KRAMA_EXPECTS(i >= 0 && static_cast<std::size_t>(i) < all.size(), "topology: {} {} of {}", what,
                  i, all.size());
    return all[static_cast<std::size_t>(i)];
  }

  std::vector<RankFacts> facts_;
  std::vector<int> group_of_;
  std::vector<std::vector<int>> members_;
  std::vector<std::string> group_names_;
  std::vector<int> host_of_;
  std::vector<std::vector<int>> on_host_;
};

/// "2 groups: nvidia (ranks 0, 1), cpu (rank 2); 1 host"
std::string to_string(const Topology& t);

/// Refuses a job in which some rank's transport is one that is required and cannot be: better at the
/// start, by all ranks with the same words, than in a collective by one.
void check_transports(const Topology& topology);

/// Of the ranks of comm. `group` is the name of the group that this rank wants; empty: by vendor.
/// Collective over comm, one control message; waits. Needs Kokkos.
/// \throws Error, the same on every rank, when a rank's facts or its group's name make no sense.
template <Communicator C>
Topology make_topology(C& comm, std::string group = default_group()) {
  const auto mine = to_text(facts_of_this_rank(describe_transport(comm), std::move(group)));
  std::vector<RankFacts> facts;
  for (const auto& text : comm.gather_text(mine, "krama::comm::topology")) {
    facts.push_back(facts_from_text(text, facts.size()));
  }
  return Topology(std::move(facts));
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE Topology::Topology(std::vector<RankFacts> facts) : facts_(std::move(facts)) {
  KRAMA_EXPECTS(!facts_.empty(), "topology: no ranks");
  std::map<std::string, int> groups;
  std::map<std::string, int> hosts;
  for (std::size_t r = 0; r < facts_.size(); ++r) {
    check_group_name(facts_[r].group, r);
    const auto& name = facts_[r].group.empty() ? facts_[r].vendor : facts_[r].group;
    group_of_.push_back(place(groups, name, members_, r));
    if (groups.size() > group_names_.size()) group_names_.push_back(name);
    host_of_.push_back(place(hosts, facts_[r].host, on_host_, r));
  }
}

KRAMA_INLINE std::string Topology::vendor_of(int group) const {
  const auto& ranks = members(group);
  const auto& vendor = facts(ranks.front()).vendor;
  const bool same =
      std::all_of(ranks.begin(), ranks.end(), [&](int r) { return facts(r).vendor == vendor; });
  return same ? vendor : "";
}

KRAMA_INLINE std::pair<int, int> Topology::link_pair(int from_group, int to_group) const {
  const auto& from = members(from_group);
  const auto& to = members(to_group);
  if (from_group == to_group)
    return {from.front(), from[std::min<std::size_t>(1, from.size() - 1)]};
  if (from_group > to_group) {
    const auto [b, a] = link_pair(to_group, from_group);
    return {a, b};
  }
  for (const int a : from) {
    for (const int b : to) {
      if (host_of(a) == host_of(b)) return {a, b};
    }
  }
  return {from.front(), to.front()};
}

KRAMA_INLINE std::vector<int> Topology::border_ranks() const {
  std::vector<int> ranks;
  for (int a = 0; a < groups(); ++a) {
    for (int b = a + 1; b < groups(); ++b) {
      const auto [p, q] = link_pair(a, b);
      ranks.insert(ranks.end(), {p, q});
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

KRAMA_INLINE int Topology::place(std::map<std::string, int>& numbers, const std::string& name,
                                 std::vector<std::vector<int>>& lists, std::size_t r) {
  const auto [found, is_new] = numbers.emplace(name, static_cast<int>(lists.size()));
  if (is_new) lists.emplace_back();
  lists[static_cast<std::size_t>(found->second)].push_back(static_cast<int>(r));
  return found->second;
}

KRAMA_INLINE void Topology::check_group_name(std::string_view name, std::size_t rank) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  KRAMA_EXPECTS(plain && name.size() <= 40 && name != "between",
                "KRAMA_GROUP of rank {} is \"{}\"; wanted at most 40 letters, digits, '-', '_' or "
                "'.', and not \"between\"",
                rank, name);
}

KRAMA_INLINE std::string to_string(const Topology& t) {
  std::string text = fmt::format("{} group{}: ", t.groups(), t.groups() == 1 ? "" : "s");
  for (int g = 0; g < t.groups(); ++g) {
    text += fmt::format("{}{} ({})", g == 0 ? "" : ", ", t.group_name(g),
                        detail::list_ranks(t.members(g)));
  }
  return text + fmt::format("; {} host{}", t.hosts(), t.hosts() == 1 ? "" : "s");
}

KRAMA_INLINE void check_transports(const Topology& topology) {
  std::string text;
  for (int r = 0; r < topology.ranks(); ++r) {
    const std::string& transport = topology.facts(r).transport;
    if (transport.find(transport_refusal) == std::string::npos) continue;
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", r, transport);
  }
  KRAMA_EXPECTS(text.empty(), "transports: {}", text);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
