// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/definitions.hpp>
#include <krama/io/safetensors.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/train/trainer.hpp>

/// What is in a checkpoint, and how it comes from the ranks and goes to them.
namespace krama::train {

namespace detail {

inline constexpr const char* checkpoint_version = "1";

/// "group2.", and nothing for the first group, which is the only one without local rounds.
inline std::string group_prefix(int group) {
  return group == 0 ? std::string() : fmt::format("group{}.", group);
}
inline std::string group_key(const char* key, int group) {
  return group == 0 ? fmt::format("krama.{}", key) : fmt::format("krama.group{}.{}", group, key);
}

/// The numbers that must be known to go on exactly where a run stopped. Collective over comm.
template <class Trainer>
std::map<std::string, std::string> checkpoint_metadata(Trainer& t) {
  std::map<std::string, std::string> all{
      {"krama.checkpoint", checkpoint_version},
      {"krama.step", std::to_string(t.steps_done())},
      {"krama.seed", std::to_string(t.options().seed)},
      {"krama.global_batch", std::to_string(t.options().global_batch)},
      {"krama.ranks", std::to_string(t.comm().size())},
      {"krama.form", t.comm().form().text()},
      {"krama.groups", std::to_string(t.groups().count())},
      {"krama.shares", t.shares().log().text()}};
  const auto updates = t.comm().gather_text(std::to_string(t.executor().updates()), "updates");
  const auto scales = t.comm().gather_text(t.executor().loss_scaler().text(), "loss scales");
  for (int g = 0; g < t.groups().count(); ++g) {
    const auto leader = static_cast<std::size_t>(t.groups().leader(g));
    all[group_key("updates", g)] = updates[leader];
    all[group_key("loss_scale", g)] = scales[leader];
  }
  if (t.local() != nullptr) {
    const auto& o = t.local()->sync().options();
    all["krama.local"] =
        fmt::format("{} {} {} {}", name_of(o.rule), o.local_steps, o.outer_rate, o.outer_momentum);
    all["krama.local_rounds"] = std::to_string(t.local()->sync().rounds());
    if (o.outer_momentum > 0) all["krama.local_velocity"] = "yes";
  }
  return all;
}

/// One flat array of the whole model from the owned pieces of a group's ranks, on the host of every
/// rank. Collective over comm.
template <class E, class Trainer>
auto gather_state(const E& exec, Trainer& t, int group, int state) {
  using A = typename Trainer::Store::accum;
  auto& executor = t.executor();
  const auto& shard = executor.shard();
  const auto owned = executor.state(state);
  using M = typename std::remove_cvref_t<decltype(owned)>::memory_space;
  const Tensor<A, 1, M> full(exec, "krama::train::checkpoint", {t.store().size()});
  fill(exec, full.ref(), A{0});
  if (t.groups().of(t.comm().rank()) == group) {
    for (int k = 0; k < shard.bucket_count(); ++k) {
      copy(exec, TensorRef<A, 1, M>(full.data() + shard.begin(k), {shard.count(k)}),
           TensorRef<A, 1, M>(owned.data() + shard.packed(k), {shard.count(k)}));
      const auto& b = shard.bucket(k);
      t.group_comm().allgather(exec, TensorRef<A, 1, M>(full.data() + b.begin, {b.size()}),
                               shard.partition(k),
                               "optimizer state of bucket " + std::to_string(k));
    }
  }
  if (t.groups().count() > 1) {
    t.comm().broadcast(exec, full.ref(), t.groups().leader(group), "optimizer state of a group");
  }
  return download(exec, full.ref());
}

/// The reverse: rank 0's flat array to the owned pieces of the ranks that want it. Collective over comm.
template <class E, class Trainer, class A>
void scatter_state(const E& exec, Trainer& t, int state, const std::vector<A>& host, bool wanted) {
  const auto& shard = t.executor().shard();
  const auto owned = t.executor().state(state);
  using M = typename std::remove_cvref_t<decltype(owned)>::memory_space;
  const Tensor<A, 1, M> full(exec, "krama::train::checkpoint", {t.store().size()});
  upload(exec, full.ref(), std::span<const A>(host));
  t.comm().broadcast(exec, full.ref(), 0, "optimizer state");
  for (int k = 0; wanted && k < shard.bucket_count(); ++k) {
    copy(exec, TensorRef<A, 1, M>(owned.data() + shard.packed(k), {shard.count(k)}),
         TensorRef<A, 1, M>(full.data() + shard.begin(k), {shard.count(k)}));
  }
  kokkos_ext::fence(exec, "krama::train::checkpoint");
}

inline std::string state_name(int group, std::string_view state, const std::string& parameter) {
  return fmt::format("{}optimizer.{}.{}", group_prefix(group), state, parameter);
}
inline std::string velocity_name(const std::string& parameter) {
  return fmt::format("local.velocity.{}", parameter);
}

std::int64_t metadata_number(const io::SafetensorsReader& file, const std::string& key);

/// 0 for a file without it.
inline std::int64_t metadata_number_or_zero(const io::SafetensorsReader& file,
                                            const std::string& key) {
  return file.metadata().contains(key) ? metadata_number(file, key) : 0;
}

/// Empty for a file from before this was written.
std::string metadata_text(const io::SafetensorsReader& file, const std::string& key);

/// The values that are loaded are the anchor; rank 0 has the outer velocity. Collective over comm.
template <class E, class Trainer, class A>
void restore_local(const E& exec, Trainer& t, std::vector<A> velocity, std::int64_t rounds) {
  const auto anchor = download(exec, t.store().values());
  using M = typename std::remove_cvref_t<decltype(t.store().values())>::memory_space;
  const Tensor<A, 1, M> full(exec, "krama::train::checkpoint", {t.store().size()});
  upload(exec, full.ref(), std::span<const A>(velocity));
  t.comm().broadcast(exec, full.ref(), 0, "outer velocity");
  t.local()->sync().restore({anchor, download(exec, full.ref()), rounds});
}

/// The form to go on with: that of the run that wrote the file, if it had as many ranks as this one
/// and nobody asks for another; else empty.
std::string form_text(const io::SafetensorsReader& file, int ranks);

}  // namespace detail

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train::detail {

KRAMA_INLINE std::int64_t metadata_number(const io::SafetensorsReader& file,
                                          const std::string& key) {
  const auto at = file.metadata().find(key);
  KRAMA_EXPECTS(at != file.metadata().end(), "{}: no \"{}\" in the metadata; not a checkpoint",
                file.name(), key);
  return std::stoll(at->second);
}

KRAMA_INLINE std::string metadata_text(const io::SafetensorsReader& file, const std::string& key) {
  const auto at = file.metadata().find(key);
  return at == file.metadata().end() ? "" : at->second;
}

KRAMA_INLINE std::string form_text(const io::SafetensorsReader& file, int ranks) {
  const bool same_ranks = metadata_text(file, "krama.ranks") == std::to_string(ranks);
  return same_ranks && default_form() == "automatic" ? metadata_text(file, "krama.form") : "";
}

}  // namespace krama::train::detail

#endif  // KRAMA_DEFINITIONS
