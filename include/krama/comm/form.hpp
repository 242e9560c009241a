// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/core/join.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// How a sum over ranks travels.
enum class FormKind : std::uint8_t {
  star,          ///< everybody sends to the owner, who adds in rank order
  ring,          ///< from the owner's next rank on, each adds its own and passes the sum on
  halving,       ///< a binomial tree: few messages, each for many owners (recursive halving)
  hierarchical,  ///< stars inside groups; one rank of each other group sends that group's sum
};

constexpr std::string_view name_of(FormKind k) {
  switch (k) {
    case FormKind::star:
      return "star";
    case FormKind::ring:
      return "ring";
    case FormKind::halving:
      return "halving";
    case FormKind::hierarchical:
      return "hierarchical";
  }
  return "?";
}

/// The tree along which one chunk is summed, from the leaves to its owner, and along which the
/// finished chunk returns. A rank adds its own values and its children's sums in rank order.
struct ReductionTree {
  std::vector<int> parent;  ///< by rank; -1 at the owner
  std::vector<int> height;  ///< longest way down to a leaf: messages that must arrive before
  std::vector<int> depth;   ///< way up to the owner
  /// Of the message to the parent: more than that of any message it contains. Messages of one stage
  /// from one rank to another may be joined.
  std::vector<int> stage;

  /// \throws Error when the parents are not a tree with the owner at its root
  explicit ReductionTree(std::vector<int> parents);
};

/// How reductions and gathers of a communicator travel: for every chunk a tree of ranks. All ranks
/// use the same form, so every element is summed in one order, which the form alone decides; with
/// `star` it is rank order. Any form moves the same number of bytes out of each rank and needs
/// nothing but messages, so ranks without a common vendor can take any part in it.
///
/// | form | messages a rank sends to reduce | sums in a row | crosses a border between two groups |
/// |---|---|---|---|
/// | star | n - 1 | 1 | n/2 times the data |
/// | ring | n - 1, all to one neighbour | n - 1 | less than twice the data |
/// | halving | log2 n | log2 n | depends on the order of ranks |
/// | hierarchical | n - 1, few of them across | 2 | once: the least possible |
///
/// (Two groups of n/2 ranks; the gather that completes an allreduce takes the same way back.)
class Form {
 public:
  Form() = default;
  static Form star() { return {}; }
  static Form ring() { return Form(FormKind::ring); }
  static Form halving() { return Form(FormKind::halving); }
  /// `group_of`: each rank's group, as Topology gives it.
  static Form hierarchical(std::vector<int> group_of);

  /// The form of this name that needs no groups; none for any other word.
  static std::optional<Form> without_groups(std::string_view name);

  [[nodiscard]] FormKind kind() const { return kind_; }
  [[nodiscard]] std::string name() const { return std::string(name_of(kind_)); }
  /// Ranks that the form is made for; 0: any number.
  [[nodiscard]] int ranks() const { return static_cast<int>(group_of_.size()); }
  [[nodiscard]] const std::vector<int>& group_of() const { return group_of_; }

  /// "star", or "hierarchical 0 0 1" with each rank's group: for checkpoints.
  [[nodiscard]] std::string text() const {
    return group_of_.empty() ? name() : name() + " " + join(group_of_, " ");
  }
  /// What `text()` wrote. \throws Error when it did not write that
  static Form parse(std::string_view text);

  /// The tree of chunk `k` of the piece of `owner`, for `n` ranks.
  [[nodiscard]] ReductionTree tree(int owner, std::int64_t k, int n) const;

  friend bool operator==(const Form&, const Form&) = default;

 private:
  explicit Form(FormKind kind) : kind_(kind) {}

  [[nodiscard]] int parent_of(int rank, int owner, std::int64_t k, int n) const;

  FormKind kind_ = FormKind::star;
  std::vector<int> group_of_;              ///< by rank; empty but for `hierarchical`
  std::vector<std::vector<int>> members_;  ///< of each group, in rank order
  std::vector<int> place_;                 ///< of each rank in its group
};

/// KRAMA_FORM, "automatic" when it is unset or empty.
std::string default_form();

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE ReductionTree::ReductionTree(std::vector<int> parents) : parent(std::move(parents)) {
  const std::size_t n = parent.size();
  height.assign(n, 0);
  depth.assign(n, 0);
  for (std::size_t r = 0; r < n; ++r) {
    int above = 0;
    for (auto at = r; parent[at] >= 0; at = static_cast<std::size_t>(parent[at])) {
      ++above;
      KRAMA_EXPECTS(above < static_cast<int>(n), "a form's tree has a circle at rank {}", at);
      auto& h = height[static_cast<std::size_t>(parent[at])];
      h = std::max(h, above);
    }
    depth[r] = above;
  }
  stage.assign(n, 0);
  for (std::size_t r = 0; r < n; ++r) {
    if (parent[r] >= 0) stage[r] = height[static_cast<std::size_t>(parent[r])];
  }
}

KRAMA_INLINE Form Form::hierarchical(std::vector<int> group_of) {
  Form f(FormKind::hierarchical);
  f.members_.resize(
      group_of.empty()
          ? 0
          : static_cast<std::size_t>(*std::max_element(group_of.begin(), group_of.end())) + 1);
  for (std::size_t r = 0; r < group_of.size(); ++r) {
    KRAMA_EXPECTS(group_of[r] >= 0, "form: rank {} has group {}", r, group_of[r]);
    auto& members = f.members_[static_cast<std::size_t>(group_of[r])];
    f.place_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(r));
  }
  f.group_of_ = std::move(group_of);
  return f;
}

KRAMA_INLINE std::optional<Form> Form::without_groups(std::string_view name) {
  for (const FormKind kind : {FormKind::star, FormKind::ring, FormKind::halving}) {
    if (name == name_of(kind)) return Form(kind);
  }
  return std::nullopt;
}

KRAMA_INLINE Form Form::parse(std::string_view text) {
  if (const auto form = without_groups(text)) return *form;
  const std::vector<std::string> words = split(text, ' ');
  KRAMA_EXPECTS(words.size() > 1 && words[0] == name_of(FormKind::hierarchical),
                "form: \"{}\" is none", text);
  std::vector<int> group_of;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto& w = words[i];
    int group = -1;
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), group);
    KRAMA_EXPECTS(error == std::errc{} && end == w.data() + w.size() && group >= 0 &&
                      group < static_cast<int>(words.size()),
                  "form: \"{}\" is no group of a rank in \"{}\"", w, text);
    group_of.push_back(group);
  }
  return hierarchical(std::move(group_of));
}

KRAMA_INLINE ReductionTree Form::tree(int owner, std::int64_t k, int n) const {
  std::vector<int> parent(static_cast<std::size_t>(n), -1);
  for (int r = 0; r < n; ++r) {
    if (r != owner) parent[static_cast<std::size_t>(r)] = parent_of(r, owner, k, n);
  }
  ReductionTree tree(std::move(parent));
  // A rank sends to another in one step only, so that a step's sums for many owners go together.
  if (kind_ == FormKind::halving) tree.stage = tree.height;
  return tree;
}

KRAMA_INLINE int Form::parent_of(int rank, int owner, std::int64_t k, int n) const {
  switch (kind_) {
    case FormKind::star:
      return owner;
    case FormKind::ring:
      return (rank + 1) % n;
    case FormKind::halving: {
      // Counted from the owner, the highest bit goes: half of all ranks send first, each for a
      // run of owners, which makes one message.
      const int away = (rank - owner + n) % n;
      int high = 1;
      while (high * 2 <= away) high *= 2;
      return (rank - high + n) % n;
    }
    case FormKind::hierarchical: {
      const auto group = static_cast<std::size_t>(group_of_[static_cast<std::size_t>(rank)]);
      const auto home = static_cast<std::size_t>(group_of_[static_cast<std::size_t>(owner)]);
      if (group == home) return owner;
      // Chunks take turns over the members, so that all their links across are used alike.
      const auto& members = members_[group];
      const auto turn = static_cast<std::size_t>((k + place_[static_cast<std::size_t>(owner)]) %
                                                 static_cast<std::int64_t>(members.size()));
      return members[turn] == rank ? owner : members[turn];
    }
  }
  return owner;
}

KRAMA_INLINE std::string default_form() {
  const char* name = std::getenv("KRAMA_FORM");
  return name == nullptr || *name == '\0' ? "automatic" : name;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
