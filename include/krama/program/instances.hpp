// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <krama/comm/world.hpp>
#include <krama/core/concepts.hpp>
#include <krama/definitions.hpp>
#include <krama/memory/param_store.hpp>
#include <krama/memory/swap_link.hpp>
#include <krama/nn/model.hpp>
#include <krama/program/fingerprint.hpp>
#include <krama/program/rank_group.hpp>
#include <krama/program/shard.hpp>
#include <krama/program/step_values.hpp>
#include <krama/program/swap_lane.hpp>
#include <krama/program/weight_window.hpp>

// What krama::compiled holds of a step: what depends on the device and the type, not on the user's
// loss and optimizer.

namespace krama {

using DefaultMemory = mem_of<DefaultDevice>;
KRAMA_INSTANCE(class ParamStore<float, DefaultMemory>);
KRAMA_INSTANCE(class nn::Model<DefaultDevice, float>);
KRAMA_INSTANCE(class SwapLink<DefaultDevice>);
KRAMA_INSTANCE(class SwapLane<DefaultDevice, float>);
KRAMA_INSTANCE(class WeightWindow<DefaultDevice, float>);
KRAMA_INSTANCE(class StepValues<DefaultDevice, float>);
KRAMA_INSTANCE(plan::StepSizes step_sizes(const nn::Model<DefaultDevice, float>&, std::int64_t));
KRAMA_INSTANCE(std::vector<int> last_blocks(const nn::Model<DefaultDevice, float>&,
                                            const ParamStore<float, DefaultMemory>&, const Shard&));
KRAMA_INSTANCE(Shard make_shard(const ParamStore<float, DefaultMemory>&, std::int64_t,
                                std::vector<double>, std::span<const std::int64_t>, int, int));
KRAMA_INSTANCE(class RankGroup<World>);
KRAMA_INSTANCE(StepAgreement agree_step(World&, int, const std::vector<bool>&, bool));
KRAMA_INSTANCE(void check_same_model(World&, const ParamStore<float, DefaultMemory>&));
KRAMA_INSTANCE(void check_same_values(World&, const exec_of<DefaultDevice>&,
                                      const ParamStore<float, DefaultMemory>&, std::int64_t));

}  // namespace krama
