// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/comm/links.hpp>
#include <krama/comm/partition.hpp>

namespace krama {

/// What a choice of form is made from; the same on every rank.
struct FormJob {
  std::vector<int> group_of;           ///< by rank
  LinkTable links;                     ///< between those groups
  std::int64_t bytes = 16 << 20;       ///< of a typical allreduce
  std::int64_t chunk_bytes = 1 << 19;  ///< as MpiOptions has it
  /// For which a message keeps its sender busy, whatever its length.
  double message_seconds = 5e-7;
};

/// Seconds that an allreduce of `job.bytes` takes along `form`: the busiest port's messages one
/// after the other, and once the longest way of one chunk up and down again. A rank has one port to
/// each group; ports work at the same time. (The usual latency and bandwidth model, over the trees.)
inline double predicted_seconds(const Form& form, const FormJob& job) {
  const int n = static_cast<int>(job.group_of.size());
  const auto groups = static_cast<std::size_t>(job.links.groups());
  const auto group = [&job](int r) { return job.group_of[static_cast<std::size_t>(r)]; };
  const auto cuts = Partition::even(job.bytes, n, 1);
  std::vector<double> port(static_cast<std::size_t>(n) * groups, 0.0);
  double longest_way = 0;
  for (int owner = 0; owner < n; ++owner) {
    for (std::int64_t k = 0; k * job.chunk_bytes < cuts.count(owner); ++k) {
      const auto bytes = std::min(job.chunk_bytes, cuts.count(owner) - k * job.chunk_bytes);
      const auto tree = form.tree(owner, k, n);
      for (int r = 0; r < n; ++r) {
        double way = 0;
        int above = -1;
        for (int at = r; (above = tree.parent[static_cast<std::size_t>(at)]) >= 0; at = above) {
          const Link& up = job.links.link(group(at), group(above));
          const Link& down = job.links.link(group(above), group(at));
          way += up.seconds(bytes) + down.seconds(bytes);
          if (at != r) continue;
          const auto busy = [&](int from, int to, const Link& link) {
            port[static_cast<std::size_t>(from) * groups + static_cast<std::size_t>(group(to))] +=
                link.transfer_seconds(bytes) + job.message_seconds;
          };
          busy(at, above, up);
          busy(above, at, down);
        }
        longest_way = std::max(longest_way, way);
      }
    }
  }
  return *std::max_element(port.begin(), port.end()) + longest_way;
}

/// The forms that a choice is made from, the simplest first.
inline std::vector<Form> form_candidates(const FormJob& job) {
  std::vector<Form> candidates{Form::star()};
  if (job.links.groups() > 1) candidates.push_back(Form::hierarchical(job.group_of));
  candidates.push_back(Form::halving());
  candidates.push_back(Form::ring());
  return candidates;
}

/// The form with the least predicted time; among equals the simplest. Pure, so ranks that have the
/// same job choose alike.
inline Form choose_form(const FormJob& job) {
  KRAMA_EXPECTS(!job.group_of.empty(), "choose_form: no ranks");
  const int most = *std::max_element(job.group_of.begin(), job.group_of.end());
  KRAMA_EXPECTS(most < job.links.groups(), "choose_form: group {} has no links in a table of {}",
                most, job.links.groups());
  const auto candidates = form_candidates(job);
  Form best = candidates.front();
  double least = predicted_seconds(best, job);
  for (const Form& form : candidates) {
    const double seconds = predicted_seconds(form, job);
    if (seconds < 0.98 * least) {
      best = form;
      least = seconds;
    }
  }
  return best;
}

}  // namespace krama
