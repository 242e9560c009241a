// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/comm/links.hpp>
#include <krama/comm/partition.hpp>
#include <krama/definitions.hpp>

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
double predicted_seconds(const Form& form, const FormJob& job);

struct FormPrediction {
  Form form;
  double seconds = 0;
};

/// What an allreduce would take along each form that a choice is made from, the simplest first.
std::vector<FormPrediction> predict_forms(const FormJob& job);

/// The one with the least predicted time; among equals the simplest.
const FormPrediction& best_of(const std::vector<FormPrediction>& predictions);

/// Pure, so ranks that have the same job choose alike.
inline Form choose_form(const FormJob& job) { return best_of(predict_forms(job)).form; }

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE double predicted_seconds(const Form& form, const FormJob& job) {
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

KRAMA_INLINE std::vector<FormPrediction> predict_forms(const FormJob& job) {
  KRAMA_EXPECTS(!job.group_of.empty(), "choose_form: no ranks");
  const int most = *std::max_element(job.group_of.begin(), job.group_of.end());
  KRAMA_EXPECTS(most < job.links.groups(), "choose_form: group {} has no links in a table of {}",
                most, job.links.groups());
  std::vector<Form> forms{Form::star()};
  if (most > 0) forms.push_back(Form::hierarchical(job.group_of));
  forms.push_back(Form::halving());
  forms.push_back(Form::ring());
  std::vector<FormPrediction> predictions;
  for (Form& form : forms) {
    const double seconds = predicted_seconds(form, job);
    predictions.push_back({std::move(form), seconds});
  }
  return predictions;
}

KRAMA_INLINE const FormPrediction& best_of(const std::vector<FormPrediction>& predictions) {
  const FormPrediction* best = &predictions.front();
  for (const auto& p : predictions) {
    if (p.seconds < 0.98 * best->seconds) best = &p;
  }
  return *best;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
