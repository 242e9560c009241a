// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/io/safetensors.hpp>
#include <krama/program/fingerprint.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/train/detail/checkpoint_parts.hpp>
#include <krama/train/together.hpp>
#include <krama/train/trainer.hpp>

/// Checkpoints: one safetensors file with parameters and buffers under their own names, unpadded, and
/// the optimizer's state as "optimizer.<state>.<parameter>"; progress in the metadata. Nothing in the file
/// depends on how many ranks wrote it or what they owned, so any number of ranks may go on from it.
///
/// With local rounds the parameters are the anchor, which all replicas hold when a checkpoint is
/// written; the outer optimizer's velocity is in it as "local.velocity.<parameter>". Each group of
/// ranks has optimizer state of its own: that of group g > 0 begins with "group<g>.". Where another
/// number of groups goes on, group g takes that of group g modulo the number that was written;
/// without local rounds that is the first one's.
namespace krama::train {

/// Writes a checkpoint; the file appears as a whole or not at all, and an old one stays until then.
/// With local rounds it ends what is under way first: training goes on from what was written.
/// Collective over comm; waits. \throws Error on every rank when the file cannot be written.
template <class E, class Trainer>
void save_checkpoint(const E& exec, Trainer& t, const std::filesystem::path& path) {
  using A = typename Trainer::Store::accum;
  using Optimizer = std::remove_cvref_t<decltype(t.executor().optimizer())>;
  // Whole arrays in the order of the file, on the host.
  struct Array {
    std::vector<A> flat;
    bool buffers = false;
    std::function<std::string(const std::string&)> name;
  };
  std::vector<Array> arrays;
  std::vector<A> velocity;
  if (t.local() != nullptr) {
    velocity = t.local()->sync().save().velocity;
    if (t.local()->sync().options().outer_momentum == 0) velocity = {};
  }
  arrays.push_back({download(exec, t.store().values()), true, [](const auto& p) { return p; }});
  for (int g = 0; g < t.groups().count(); ++g) {
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      arrays.push_back(
          {detail::gather_state(exec, t, g, static_cast<int>(s)), false,
           [g, s](const auto& p) { return detail::state_name(g, Optimizer::state_names[s], p); }});
      if (t.comm().rank() != 0) arrays.back().flat = {};  // only rank 0 writes
    }
  }
  if (!velocity.empty()) arrays.push_back({std::move(velocity), false, detail::velocity_name});
  const auto metadata = detail::checkpoint_metadata(t);
  on_rank_zero(t.comm(), "save checkpoint", [&] {
    std::vector<io::TensorSpec> specs;
    const auto for_each = [&](const auto& f) {
      for (const auto& a : arrays) {
        for (const auto& seg : t.store().segments()) {
          if (a.buffers || !seg.buffer) f(a, seg);
        }
      }
    };
    for_each([&](const Array& a, const Segment& seg) {
      const auto e = seg.extents.span();
      specs.push_back({a.name(seg.name), io::element_type_of<A>, {e.begin(), e.end()}});
    });
    io::SafetensorsWriter file(path, specs, metadata);
    std::size_t at = 0;
    for_each([&](const Array& a, const Segment& seg) {
      file.write(specs[at++].name,
                 std::span<const A>(a.flat).subspan(static_cast<std::size_t>(seg.offset),
                                                    static_cast<std::size_t>(seg.size)));
    });
    file.commit();
  });
}

/// Goes on from a checkpoint: parameters, optimizer state, step. Rank 0 reads, all ranks get it.
/// Collective over comm; waits.
/// \throws Error on every rank when the file is missing, damaged or of another model, or was written
/// with another seed or global batch, with which the samples would not go on where they stopped.
/// Where as many ranks go on and KRAMA_FORM asks for no form, sums travel as they did before.
template <class E, class Trainer>
void load_checkpoint(const E& exec, Trainer& t, const std::filesystem::path& path) {
  using A = typename Trainer::Store::accum;
  using Optimizer = std::remove_cvref_t<decltype(t.executor().optimizer())>;
  using States = std::array<std::vector<A>, Optimizer::states>;
  const auto size = static_cast<std::size_t>(t.store().size());
  std::vector<A> values(size, A{0});
  std::vector<A> velocity(size, A{0});
  std::vector<States> states;  // of each group, on rank 0
  std::array<std::int64_t, 2> progress{};
  std::string shares;
  std::string form;
  std::string groups;
  on_rank_zero(t.comm(), "load checkpoint", [&] {
    const io::SafetensorsReader file(path);
    const auto same = [&](const std::string& key, std::uint64_t mine) {
      const auto theirs = static_cast<std::uint64_t>(detail::metadata_number(file, key));
      KRAMA_EXPECTS(theirs == mine, "{}: {} was {} when it was written, now it is {}", file.name(),
                    key, theirs, mine);
    };
    same("krama.seed", t.options().seed);
    same("krama.global_batch", static_cast<std::uint64_t>(t.options().global_batch));
    const bool has_velocity = !detail::metadata_text(file, "krama.local_velocity").empty();
    progress = {detail::metadata_number(file, "krama.step"),
                detail::metadata_number_or_zero(file, "krama.local_rounds")};
    shares = detail::metadata_text(file, "krama.shares");
    form = detail::form_text(file, t.comm().size());
    const auto written =
        std::max<std::int64_t>(1, detail::metadata_number_or_zero(file, "krama.groups"));
    States empty;
    empty.fill(std::vector<A>(size, A{0}));
    states.assign(static_cast<std::size_t>(written), empty);
    for (int g = 0; g < written; ++g) {
      groups +=
          fmt::format("{} {}\n", detail::metadata_number(file, detail::group_key("updates", g)),
                      detail::metadata_text(file, detail::group_key("loss_scale", g)));
    }
    struct Place {
      std::string name;
      const Segment* segment;
      std::vector<A>* to;
    };
    std::vector<Place> places;
    for (const auto& seg : t.store().segments()) {
      places.push_back({seg.name, &seg, &values});
      if (seg.buffer) continue;
      for (int g = 0; g < written; ++g) {
        for (std::size_t s = 0; s < Optimizer::states; ++s) {
          places.push_back({detail::state_name(g, Optimizer::state_names[s], seg.name), &seg,
                            &states[static_cast<std::size_t>(g)][s]});
        }
      }
      if (has_velocity) places.push_back({detail::velocity_name(seg.name), &seg, &velocity});
    }
    std::vector<std::string> names;
    for (const auto& p : places) names.push_back(p.name);
    file.expect_exactly(names);
    for (const auto& p : places) {
      file.read(p.name, p.segment->extents.span(),
                std::span<A>(*p.to).subspan(static_cast<std::size_t>(p.segment->offset),
                                            static_cast<std::size_t>(p.segment->size)));
    }
  });
  t.comm().sum(progress, "checkpoint progress");  // only rank 0's are not zero
  upload(exec, t.store().values(), std::span<const A>(values));
  t.comm().broadcast(exec, t.store().values(), 0, "checkpoint values");
  t.store().refresh_working(exec);
  const auto of_group =
      krama::detail::split_lines(t.comm().gather_text(groups, "checkpoint groups").front());
  const std::size_t mine =
      static_cast<std::size_t>(t.groups().of(t.comm().rank())) % of_group.size();
  for (std::size_t g = 0; g < of_group.size(); ++g) {
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      detail::scatter_state(exec, t, static_cast<int>(s), states.empty() ? values : states[g][s],
                            g == mine);
    }
  }
  if (t.local() != nullptr) {
    detail::restore_local(exec, t, velocity, progress[1]);
  }
  // With the form that it had, the run goes on to the bits that it would have reached.
  form = t.comm().gather_text(form, "checkpoint form").front();
  if (!form.empty()) t.comm().set_form(Form::parse(form));
  t.set_steps_done(progress[0]);
  const std::string& line = of_group[mine];
  const std::size_t space = line.find(' ');
  t.executor().set_updates(std::stoll(line.substr(0, space)));
  t.executor().loss_scaler().resume(line.substr(space + 1));
  t.shares().resume(progress[0],
                    ShareLog::parse(t.comm().gather_text(shares, "checkpoint shares").front()));
}

/// Lets a run share out its batches as the run that wrote `path` did, up to the checkpoint's step;
/// with the same ranks and seed it computes the same bits. Collective over comm.
/// \throws Error on every rank when the file is missing or damaged.
template <Communicator C>
void replay_shares(C& comm, const std::filesystem::path& path, ShareOptions& options) {
  std::string text;
  std::array<std::int64_t, 1> steps{};
  on_rank_zero(comm, "read share log", [&] {
    const io::SafetensorsReader file(path);
    steps[0] = detail::metadata_number(file, "krama.step");
    text = detail::metadata_text(file, "krama.shares");
    KRAMA_EXPECTS(!ShareLog::parse(text).empty(), "{}: no share log in it", file.name());
  });
  options.replay = ShareLog::parse(comm.gather_text(text, "share log").front());
  comm.sum(steps, "steps of the share log");  // only rank 0's are not zero
  options.replay_until = steps[0];
}

}  // namespace krama::train
