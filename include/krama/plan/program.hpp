// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace krama::plan {

/// What one instruction of a training step does.
enum class Op : std::uint8_t {
  zero_grads,     ///< clear the flat gradients
  feed,           ///< copy micro-batch `micro` into the input values
  forward,        ///< block `index`
  recompute,      ///< forward of block `index` again, for the sake of its stash
  loss,           ///< loss and gradient of the output
  backward,       ///< block `index`
  reduce,         ///< begin to sum bucket `index` over ranks, to its owners
  await_reduce,   ///< the sums are there
  agree,          ///< norm, non-finite values, loss and weight of the whole step, known to all
  update,         ///< owners apply the optimizer to their pieces of bucket `index`
  gather,         ///< owners give their pieces of bucket `index` to all
  swap_out,       ///< begin to move what block `index` saved to the far tier
  await_out,      ///< its memory may be used again
  swap_in,        ///< begin to move it back, to its place for backward
  await_in,       ///< it is there
  fetch_weights,  ///< begin to bring block `index`'s weights from far memory into the window
  fetch_grads,    ///< begin to bring its gradients as they are so far, zeros the first time
  await_fetch,    ///< what was asked for block `index` is there
  drop_weights,   ///< their place may be used again
  send_grads,     ///< begin to move its gradients out; the link may use their place behind it
  await_send,     ///< they are in far memory
};

/// Where an instruction does its work; one row of a trace.
enum class Lane : std::uint8_t { compute, comm, data, link };

/// One instruction; `index` is a block or a bucket, `micro` a micro-batch, -1 where there is none.
struct Instr {
  Op op = Op::forward;
  int index = -1;
  int micro = -1;

  friend bool operator==(const Instr&, const Instr&) = default;
};

/// One training step (or evaluation) of one rank. Executed in order; planners make and transform it,
/// one executor runs it, and nothing else knows whether a block is kept or recomputed.
using Program = std::vector<Instr>;

constexpr std::string_view name_of(Op op) {
  switch (op) {
    case Op::zero_grads:
      return "zero_grads";
    case Op::feed:
      return "feed";
    case Op::forward:
      return "forward";
    case Op::recompute:
      return "recompute";
    case Op::loss:
      return "loss";
    case Op::backward:
      return "backward";
    case Op::reduce:
      return "reduce";
    case Op::await_reduce:
      return "await_reduce";
    case Op::agree:
      return "agree";
    case Op::update:
      return "update";
    case Op::gather:
      return "gather";
    case Op::swap_out:
      return "swap_out";
    case Op::await_out:
      return "await_out";
    case Op::swap_in:
      return "swap_in";
    case Op::await_in:
      return "await_in";
    case Op::fetch_weights:
      return "fetch_weights";
    case Op::fetch_grads:
      return "fetch_grads";
    case Op::await_fetch:
      return "await_fetch";
    case Op::drop_weights:
      return "drop_weights";
    case Op::send_grads:
      return "send_grads";
    case Op::await_send:
      return "await_send";
  }
  return "?";
}

constexpr Lane lane_of(Op op) {
  switch (op) {
    case Op::feed:
      return Lane::data;
    case Op::reduce:
    case Op::await_reduce:
    case Op::agree:
    case Op::gather:
      return Lane::comm;
    case Op::swap_out:
    case Op::swap_in:
    case Op::fetch_weights:
    case Op::fetch_grads:
    case Op::send_grads:
      return Lane::link;
    default:
      return Lane::compute;
  }
}

constexpr std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::comm:
      return "communication";
    case Lane::data:
      return "data";
    case Lane::link:
      return "link";
  }
  return "?";
}

}  // namespace krama::plan
