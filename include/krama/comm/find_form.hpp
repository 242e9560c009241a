// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <vector>

#include <krama/comm/choose_form.hpp>
#include <krama/comm/communicator.hpp>
#include <krama/comm/form.hpp>
#include <krama/comm/measure_links.hpp>
#include <krama/comm/topology.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>

/// Which form a job's sums take: asked for by name, or chosen once from measured links.
namespace krama {

struct FormFound {
  Form form;
  std::string reason;  ///< for people
};

/// The form of this name for ranks in these groups; "deterministic" is a star: rank order, whatever
/// the links. \throws Error for any other word
Form form_of_name(std::string_view name, const std::vector<int>& group_of);

/// The form for `job`, with the predictions that speak for it. Pure.
FormFound explained_choice(const FormJob& job);

/// What sums over comm's ranks should travel along. `wanted` is a name, the same on all ranks, or
/// "automatic": then the links between the groups are measured where the form matters, which is with
/// three ranks or more in two groups or more, and the form with the least predicted time is taken.
/// Two runs may measure, and so choose, differently; the form decides in which order is added, so a
/// run whose bits must be repeated names its form. Collective over comm; waits.
/// \throws Error, the same on every rank, when `wanted` is no form or differs among ranks
template <Communicator C>
FormFound find_form(C& comm, const Topology& topology, const std::string& wanted = default_form()) {
  KRAMA_EXPECTS(topology.ranks() == comm.size(),
                "find_form: a topology of {} ranks for a communicator of {}", topology.ranks(),
                comm.size());
  const auto all = comm.gather_text(wanted, "krama::comm::find_form");
  for (std::size_t r = 0; r < all.size(); ++r) {
    KRAMA_EXPECTS(all[r] == all[0],
                  "KRAMA_FORM is \"{}\" on rank 0 and \"{}\" on rank {}; give all ranks the same",
                  all[0], all[r], r);
  }
  if (wanted != "automatic") {
    return {form_of_name(wanted, topology.group_numbers()), "asked for"};
  }
  if (topology.ranks() < 3) return {Form::star(), "all forms are alike for two ranks"};
  if (topology.groups() < 2) return {Form::star(), "one group: no border to spare"};
  return explained_choice({topology.group_numbers(), measure_links(comm, topology)});
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE Form form_of_name(std::string_view name, const std::vector<int>& group_of) {
  if (name == "deterministic") return Form::star();
  if (name == name_of(FormKind::hierarchical)) return Form::hierarchical(group_of);
  if (const auto form = Form::without_groups(name)) return *form;
  throw Error(
      fmt::format("KRAMA_FORM is \"{}\"; wanted automatic, deterministic, star, ring, "
                  "halving or hierarchical",
                  name));
}

KRAMA_INLINE FormFound explained_choice(const FormJob& job) {
  const auto predictions = predict_forms(job);
  const FormPrediction& best = best_of(predictions);
  const auto in_words = [](const FormPrediction& p) {
    return fmt::format("{} {:.3g} ms", p.form.name(), 1e3 * p.seconds);
  };
  std::string others;
  for (const auto& p : predictions) {
    if (&p != &best) others += (others.empty() ? "" : ", ") + in_words(p);
  }
  return {best.form, fmt::format("predicted for {} MiB: {} against {}", job.bytes >> 20,
                                 in_words(best), others)};
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
