// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/io/safetensors.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/train/together.hpp>
#include <krama/train/trainer.hpp>

/// Checkpoints: one safetensors file with parameters and buffers under their own names, unpadded, and
/// the optimizer's state as "optimizer.<state>.<parameter>"; progress in the metadata. Nothing in the file
/// depends on how many ranks wrote it or what they owned, so any number of ranks may go on from it.
namespace krama::train {

namespace detail {

inline constexpr const char* checkpoint_version = "1";

/// The numbers that must be known to go on exactly where a run stopped.
template <class Trainer>
std::map<std::string, std::string> checkpoint_metadata(Trainer& t) {
  return {{"krama.checkpoint", checkpoint_version},
          {"krama.step", std::to_string(t.steps_done())},
          {"krama.updates", std::to_string(t.executor().updates())},
          {"krama.seed", std::to_string(t.options().seed)},
          {"krama.global_batch", std::to_string(t.options().global_batch)},
          {"krama.ranks", std::to_string(t.comm().size())},
          {"krama.form", t.comm().form().text()},
          {"krama.loss_scale", t.executor().loss_scaler().text()},
          {"krama.shares", t.shares().log().text()}};
}

/// One flat array of the whole model from every rank's owned pieces, on the host of every rank.
template <class E, class Trainer>
auto gather_state(const E& exec, Trainer& t, int state) {
  using A = typename Trainer::Store::accum;
  auto& executor = t.executor();
  const auto& shard = executor.shard();
  const auto owned = executor.state(state);
  using M = typename std::remove_cvref_t<decltype(owned)>::memory_space;
  const Tensor<A, 1, M> full(exec, "krama::train::checkpoint", {t.store().size()});
  fill(exec, full.ref(), A{0});
  for (int k = 0; k < shard.bucket_count(); ++k) {
    copy(exec, TensorRef<A, 1, M>(full.data() + shard.begin(k), {shard.count(k)}),
         TensorRef<A, 1, M>(owned.data() + shard.packed(k), {shard.count(k)}));
    const auto& b = shard.bucket(k);
    t.comm().allgather(exec, TensorRef<A, 1, M>(full.data() + b.begin, {b.size()}),
                       shard.partition(k), "optimizer state of bucket " + std::to_string(k));
  }
  return download(exec, full.ref());
}

/// The reverse: rank 0's flat array to every rank's owned pieces.
template <class E, class Trainer, class A>
void scatter_state(const E& exec, Trainer& t, int state, const std::vector<A>& host) {
  const auto& shard = t.executor().shard();
  const auto owned = t.executor().state(state);
  using M = typename std::remove_cvref_t<decltype(owned)>::memory_space;
  const Tensor<A, 1, M> full(exec, "krama::train::checkpoint", {t.store().size()});
  upload(exec, full.ref(), std::span<const A>(host));
  t.comm().broadcast(exec, full.ref(), 0, "optimizer state");
  for (int k = 0; k < shard.bucket_count(); ++k) {
    copy(exec, TensorRef<A, 1, M>(owned.data() + shard.packed(k), {shard.count(k)}),
         TensorRef<A, 1, M>(full.data() + shard.begin(k), {shard.count(k)}));
  }
  kokkos_ext::fence(exec, "krama::train::checkpoint");
}

inline std::string state_name(std::string_view state, const std::string& parameter) {
  return fmt::format("optimizer.{}.{}", state, parameter);
}

inline std::int64_t metadata_number(const io::SafetensorsReader& file, const std::string& key) {
  const auto at = file.metadata().find(key);
  KRAMA_EXPECTS(at != file.metadata().end(), "{}: no \"{}\" in the metadata; not a checkpoint",
                file.name(), key);
  return std::stoll(at->second);
}

/// Empty for a file from before this was written.
inline std::string metadata_text(const io::SafetensorsReader& file, const std::string& key) {
  const auto at = file.metadata().find(key);
  return at == file.metadata().end() ? "" : at->second;
}

/// The form to go on with: that of the run that wrote the file, if it had as many ranks as this one
/// and nobody asks for another; else empty.
inline std::string form_text(const io::SafetensorsReader& file, int ranks) {
  const bool same_ranks = metadata_text(file, "krama.ranks") == std::to_string(ranks);
  return same_ranks && default_form() == "automatic" ? metadata_text(file, "krama.form") : "";
}

}  // namespace detail

/// Writes a checkpoint; the file appears as a whole or not at all, and an old one stays until then.
/// Collective over comm; waits. \throws Error on every rank when the file cannot be written.
template <class E, class Trainer>
void save_checkpoint(const E& exec, Trainer& t, const std::filesystem::path& path) {
  using A = typename Trainer::Store::accum;
  using Optimizer = std::remove_cvref_t<decltype(t.executor().optimizer())>;
  const auto values = download(exec, t.store().values());
  std::array<std::vector<A>, Optimizer::states> states;
  for (std::size_t s = 0; s < Optimizer::states; ++s) {
    states[s] = detail::gather_state(exec, t, static_cast<int>(s));
  }
  on_rank_zero(t.comm(), "save checkpoint", [&] {
    std::vector<io::TensorSpec> specs;
    for (const auto& seg : t.store().segments()) {
      const auto e = seg.extents.span();
      specs.push_back({seg.name, io::element_type_of<A>, {e.begin(), e.end()}});
    }
    for (std::size_t s = 0; s < Optimizer::states; ++s) {
      for (const auto& seg : t.store().segments()) {
        if (seg.buffer) continue;
        const auto e = seg.extents.span();
        specs.push_back({detail::state_name(Optimizer::state_names[s], seg.name),
                         io::element_type_of<A>,
                         {e.begin(), e.end()}});
      }
    }
    io::SafetensorsWriter file(path, specs, detail::checkpoint_metadata(t));
    std::size_t at = 0;
    const auto write = [&](const std::vector<A>& flat, bool buffers) {
      for (const auto& seg : t.store().segments()) {
        if (seg.buffer && !buffers) continue;
        file.write(specs[at++].name,
                   std::span<const A>(flat).subspan(static_cast<std::size_t>(seg.offset),
                                                    static_cast<std::size_t>(seg.size)));
      }
    };
    write(values, true);
    for (const auto& s : states) write(s, false);
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
  const auto size = static_cast<std::size_t>(t.store().size());
  std::vector<A> values(size, A{0});
  std::array<std::vector<A>, Optimizer::states> states;
  states.fill(std::vector<A>(size, A{0}));
  std::array<std::int64_t, 2> progress{};
  std::string shares;
  std::string form;
  std::string scale;
  on_rank_zero(t.comm(), "load checkpoint", [&] {
    const io::SafetensorsReader file(path);
    const auto same = [&](const std::string& key, std::uint64_t mine) {
      const auto theirs = static_cast<std::uint64_t>(detail::metadata_number(file, key));
      KRAMA_EXPECTS(theirs == mine, "{}: {} was {} when it was written, now it is {}", file.name(),
                    key, theirs, mine);
    };
    same("krama.seed", t.options().seed);
    same("krama.global_batch", static_cast<std::uint64_t>(t.options().global_batch));
    progress = {detail::metadata_number(file, "krama.step"),
                detail::metadata_number(file, "krama.updates")};
    shares = detail::metadata_text(file, "krama.shares");
    form = detail::form_text(file, t.comm().size());
    scale = detail::metadata_text(file, "krama.loss_scale");
    std::vector<std::string> names;
    for (const auto& seg : t.store().segments()) {
      names.push_back(seg.name);
      if (seg.buffer) continue;
      for (const auto& s : Optimizer::state_names) names.push_back(detail::state_name(s, seg.name));
    }
    file.expect_exactly(names);
    for (const auto& seg : t.store().segments()) {
      const auto part = [&](std::vector<A>& flat) {
        return std::span<A>(flat).subspan(static_cast<std::size_t>(seg.offset),
                                          static_cast<std::size_t>(seg.size));
      };
      file.read(seg.name, seg.extents.span(), part(values));
      for (std::size_t s = 0; s < Optimizer::states && !seg.buffer; ++s) {
        file.read(detail::state_name(Optimizer::state_names[s], seg.name), seg.extents.span(),
                  part(states[s]));
      }
    }
  });
  upload(exec, t.store().values(), std::span<const A>(values));
  t.comm().broadcast(exec, t.store().values(), 0, "checkpoint values");
  t.store().refresh_working(exec);
  for (std::size_t s = 0; s < Optimizer::states; ++s) {
    detail::scatter_state(exec, t, static_cast<int>(s), states[s]);
  }
  t.comm().sum(progress, "checkpoint progress");  // only rank 0's are not zero
  // With the form that it had, the run goes on to the bits that it would have reached.
  form = t.comm().gather_text(form, "checkpoint form").front();
  if (!form.empty()) t.comm().set_form(Form::parse(form));
  t.set_steps_done(progress[0]);
  t.executor().set_updates(progress[1]);
  t.executor().loss_scaler().resume(t.comm().gather_text(scale, "checkpoint loss scale").front());
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
