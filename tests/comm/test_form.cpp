// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/comm/choose_form.hpp>
#include <krama/comm/form.hpp>
#include <krama/comm/route.hpp>

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <vector>

using krama::Form;
using krama::Partition;
using krama::ReductionTree;
using krama::comm::Route;

namespace {

std::vector<int> groups_of(int ranks, int groups) {
  std::vector<int> g;
  for (int r = 0; r < ranks; ++r) g.push_back(r * groups / ranks);
  return g;
}
std::vector<Form> all_forms(int ranks) {
  return {Form::star(),
          Form::ring(),
          Form::halving(),
          Form::hierarchical(groups_of(ranks, 2)),
          Form::hierarchical(groups_of(ranks, 3)),
          Form::hierarchical(std::vector<int>(static_cast<std::size_t>(ranks), 0))};
}
std::vector<Route> routes(const Form& form, const Partition& p, std::int64_t chunk) {
  std::vector<Route> all;
  for (int r = 0; r < p.parts(); ++r) all.emplace_back(form, p, r, chunk);
  return all;
}
bool same(const Route::Line& a, const Route::Line& b) {
  if (a.messages.size() != b.messages.size()) return false;
  for (std::size_t i = 0; i < a.messages.size(); ++i) {
    if (a.messages[i].begin != b.messages[i].begin || a.messages[i].count != b.messages[i].count) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("form: every chunk has a tree of all ranks that ends at its owner", "[comm]") {
  for (int n = 1; n <= 16; ++n) {
    for (const Form& form : all_forms(n)) {
      for (int owner = 0; owner < n; ++owner) {
        for (std::int64_t k = 0; k < 5; ++k) {
          INFO(form.name() << " of " << n << " ranks, owner " << owner << ", chunk " << k);
          const ReductionTree tree = form.tree(owner, k, n);
          CHECK(tree.depth[static_cast<std::size_t>(owner)] == 0);
          int leaves_or_more = 0;
          for (int r = 0; r < n; ++r) {
            const auto i = static_cast<std::size_t>(r);
            CHECK((tree.parent[i] < 0) == (r == owner));
            if (tree.parent[i] < 0) continue;
            ++leaves_or_more;
            const auto p = static_cast<std::size_t>(tree.parent[i]);
            CHECK(tree.depth[i] == tree.depth[p] + 1);
            CHECK(tree.height[p] > tree.height[i]);
          }
          CHECK(leaves_or_more == n - 1);
        }
      }
    }
  }
}

TEST_CASE("form: a circle of parents is refused", "[comm]") {
  CHECK_THROWS_AS(ReductionTree({-1, 2, 1}), krama::Error);
}

TEST_CASE("form: heights are those of the published algorithms", "[comm]") {
  for (int owner = 0; owner < 8; ++owner) {
    const auto at = static_cast<std::size_t>(owner);
    CHECK(Form::star().tree(owner, 0, 8).height[at] == 1);
    CHECK(Form::ring().tree(owner, 0, 8).height[at] == 7);
    CHECK(Form::halving().tree(owner, 0, 8).height[at] == 3);
    CHECK(Form::hierarchical(groups_of(8, 2)).tree(owner, 0, 8).height[at] == 2);
  }
}

TEST_CASE("route: both ends of every line have the same messages", "[comm]") {
  for (const int n : {2, 3, 5, 8, 13}) {
    for (const Form& form : all_forms(n)) {
      for (const auto& p :
           {Partition::even(5000, n), Partition::even(256, n), Partition::even(7777, n, 1)}) {
        INFO(form.name() << " of " << n << " ranks, " << p.size() << " elements");
        const auto all = routes(form, p, 300);
        for (int a = 0; a < n; ++a) {
          for (int b = 0; b < n; ++b) {
            const auto& mine =
                all[static_cast<std::size_t>(a)].peers()[static_cast<std::size_t>(b)];
            const auto& other =
                all[static_cast<std::size_t>(b)].peers()[static_cast<std::size_t>(a)];
            CHECK(same(mine.up_to, other.up_from));
            CHECK(same(mine.down_to, other.down_from));
          }
        }
      }
    }
  }
}

TEST_CASE("route: every rank sends every element once at most, and halving sends few messages",
          "[comm]") {
  for (const int n : {2, 4, 8, 16}) {
    for (const Form& form : all_forms(n)) {
      const auto p = Partition::even(256 * n, n);
      for (const Route& route : routes(form, p, 1 << 20)) {
        std::int64_t elements = 0;
        std::size_t messages = 0;
        for (const auto& peer : route.peers()) {
          messages += peer.up_to.messages.size();
          for (const auto& m : peer.up_to.messages) elements += m.count;
        }
        CHECK(elements == 256 * (n - 1));
        INFO(form.name() << " of " << n << " ranks: " << messages << " messages");
        if (form.kind() == krama::FormKind::halving) {
          // A run of owners that goes past the last rank takes two.
          std::size_t steps = 0;
          while ((1 << steps) < n) ++steps;
          CHECK(messages <= 2 * steps);
        } else {
          CHECK(messages <= static_cast<std::size_t>(n - 1));
        }
      }
    }
  }
}

TEST_CASE("route: hierarchical sums cross the border once, the least possible", "[comm]") {
  const int n = 8;
  const auto group = groups_of(n, 2);
  const auto crossing = [&](const Form& form) {
    std::int64_t elements = 0;
    const auto all = routes(form, Partition::even(256 * 64, n), 256);
    for (int r = 0; r < n; ++r) {
      for (int to = 0; to < n; ++to) {
        if (group[static_cast<std::size_t>(r)] == group[static_cast<std::size_t>(to)]) continue;
        const auto& peer = all[static_cast<std::size_t>(r)].peers()[static_cast<std::size_t>(to)];
        for (const auto& m : peer.up_to.messages) elements += m.count;
      }
    }
    return elements;
  };
  // The owners of one group need the sum of the other group's values of their half.
  CHECK(crossing(Form::hierarchical(group)) == 256 * 64);
  CHECK(crossing(Form::star()) == 4 * 256 * 64);
}

TEST_CASE("route: with any windows, no order of sums waits for itself", "[comm]") {
  // Sums in the order that Route promises never need a message before which something unfinished
  // stands. Here the worst case: every line holds back all but its oldest unconsumed message.
  for (const int n : {2, 3, 5, 6, 8}) {
    for (const Form& form : all_forms(n)) {
      for (const std::int64_t chunk : {64, 300, 100000}) {
        const auto p = Partition::even(4000, n, 1);
        const auto all = routes(form, p, chunk);
        INFO(form.name() << " of " << n << " ranks, chunks of " << chunk);
        struct LineState {
          std::size_t consumed = 0;
          std::vector<int> unsummed;  // chunks of each message
          std::vector<int> unready;
        };
        std::vector<std::vector<LineState>> up(static_cast<std::size_t>(n));  // [to][from]
        std::size_t sums_left = 0;
        std::vector<std::vector<bool>> summed;
        for (std::size_t r = 0; r < all.size(); ++r) {
          summed.emplace_back(all[r].chunks().size(), false);
          up[r].resize(all.size());
          for (std::size_t q = 0; q < all.size(); ++q) {
            for (const auto& m : all[r].peers()[q].up_from.messages) {
              up[r][q].unsummed.push_back(m.chunks);
              up[r][q].unready.push_back(m.chunks);
            }
          }
        }
        const std::function<void(std::size_t, std::size_t)> done = [&](std::size_t r,
                                                                       std::size_t c) {
          summed[r][c] = true;
          const auto& parent = all[r].chunks()[c].parent;
          if (parent.peer >= 0) {
            --up[static_cast<std::size_t>(parent.peer)][r]
                  .unready[static_cast<std::size_t>(parent.up)];
          }
        };
        for (std::size_t r = 0; r < all.size(); ++r) {
          for (std::size_t c = 0; c < all[r].chunks().size(); ++c) {
            if (all[r].chunks()[c].n_children == 0) {
              done(r, c);
            } else {
              ++sums_left;
            }
          }
        }
        for (bool moved = true; moved && sums_left > 0;) {
          moved = false;
          for (std::size_t r = 0; r < all.size(); ++r) {
            for (std::size_t c = 0; c < all[r].chunks().size(); ++c) {
              const auto& ch = all[r].chunks()[c];
              if (summed[r][c]) continue;
              bool here = true;
              for (int i = 0; i < ch.n_children; ++i) {
                const auto& e = all[r].children(ch)[i];
                const auto& line = up[r][static_cast<std::size_t>(e.peer)];
                here = here && line.consumed == static_cast<std::size_t>(e.up) &&
                       line.unready[line.consumed] == 0;
              }
              if (!here) continue;
              for (int i = 0; i < ch.n_children; ++i) {
                const auto& e = all[r].children(ch)[i];
                auto& line = up[r][static_cast<std::size_t>(e.peer)];
                if (--line.unsummed[line.consumed] == 0) ++line.consumed;
              }
              done(r, c);
              --sums_left;
              moved = true;
            }
          }
        }
        CHECK(sums_left == 0);
      }
    }
  }
}

TEST_CASE("choose_form: stars on equal links, hierarchies over slow borders", "[comm]") {
  krama::FormJob job;
  job.group_of = groups_of(8, 2);
  job.links = krama::LinkTable(2, {5e-6, 10e9});
  CHECK(krama::choose_form(job).kind() == krama::FormKind::star);
  job.links.set(0, 1, {50e-6, 1e9});
  job.links.set(1, 0, {50e-6, 1e9});
  CHECK(krama::choose_form(job) == Form::hierarchical(job.group_of));
  job.group_of = std::vector<int>(16, 0);
  job.bytes = 1024;
  job.message_seconds = 1e-5;
  job.links = krama::LinkTable(1, {1e-6, 10e9});
  CHECK(krama::predicted_seconds(Form::ring(), job) > krama::predicted_seconds(Form::star(), job));
  job.group_of = {0, 5};
  CHECK_THROWS_AS(krama::choose_form(job), krama::Error);
}

TEST_CASE("form: text and back", "[comm]") {
  for (const Form& form : all_forms(5)) CHECK(Form::parse(form.text()) == form);
  CHECK(Form::hierarchical({0, 1, 0}).text() == "hierarchical 0 1 0");
  for (const char* bad : {"", "tree", "star 0", "hierarchical", "hierarchical 0 x",
                          "hierarchical -1", "hierarchical 0 99", "hierarchical  0"}) {
    INFO(bad);
    CHECK_THROWS_AS(Form::parse(bad), krama::Error);
  }
}
