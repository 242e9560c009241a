// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <krama/comm/mpi/allgather.hpp>
#include <krama/comm/mpi/allreduce.hpp>
#include <krama/comm/mpi/broadcast.hpp>
#include <krama/comm/mpi/detail/started_reduce.hpp>
#include <krama/comm/mpi/reduce_scatter.hpp>
#include <krama/core/concepts.hpp>
#include <krama/definitions.hpp>

// What krama::compiled holds of the collectives: those of f32 in the default device's memory, and the
// flow of messages of both types of sums.

namespace krama::comm::detail {

using Exec = exec_of<DefaultDevice>;
using Mem = mem_of<DefaultDevice>;
KRAMA_INSTANCE(class Flow<float>);
KRAMA_INSTANCE(class Flow<double>);
KRAMA_INSTANCE(class StartedReduce<Exec, float, Mem>);
KRAMA_INSTANCE(void reduce_scatter(State&, const Exec&, TensorRef<float, 1, Mem>, const Partition&,
                                   std::string_view));
KRAMA_INSTANCE(Pending start_reduce_scatter(const std::shared_ptr<State>&, const Exec&,
                                            TensorRef<float, 1, Mem>, const Partition&,
                                            std::string_view, const WireEncoding&));
KRAMA_INSTANCE(void allgather(State&, const Exec&, TensorRef<float, 1, Mem>, const Partition&,
                              std::string_view));
KRAMA_INSTANCE(void allreduce(State&, const Exec&, TensorRef<float, 1, Mem>, std::string_view));

}  // namespace krama::comm::detail
