// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <krama/comm/form.hpp>
#include <krama/comm/partition.hpp>
#include <krama/comm/pending.hpp>
#include <krama/comm/transport.hpp>
#include <krama/comm/wire_encoding.hpp>
#include <krama/core/concepts.hpp>
#include <krama/definitions.hpp>
#include <krama/tensor/tensor_ref.hpp>

/// The contract of every communicator.
///
/// Ranks of one job may run on unlike hardware with unlike executables, so a communicator moves
/// bytes and Krama does the arithmetic: each element of a sum is finished by exactly one rank (its
/// owner, see Partition) in the order of a Form, by default rank order, ((r0 + r1) + r2) + …, and
/// then copied as bytes. All ranks therefore hold the same bits afterwards, whatever their rounding.
///
/// Rules of all operations, unless an operation says otherwise:
/// - *collective over comm*: every rank calls it, in the same order, with the same element type,
///   count, partition or root, and `what`. `what` names the tensor in errors and in the report of a
///   stalled wait; the first call with each name is compared across ranks, and a difference is the
///   same krama::Error on every rank.
/// - *waits*: an operation on a tensor starts after the work already in `exec` (it fences that
///   instance before anybody else reads the memory) and is complete when it returns.
/// - buffers are changed in place; a rank may own, give or receive nothing (count 0) and still takes
///   part.
/// - one thread calls a communicator; use duplicates for independent streams of calls.
///
/// | operation | afterwards |
/// |---|---|
/// | `reduce_scatter(exec, buffer, partition, what)` | this rank's piece holds the sum over ranks; the rest is unspecified |
/// | `start_reduce_scatter(…, wire)` | the same once the Pending that it returns has been waited for; sums of f32 go to their owners as `wire` says, see WireEncoding |
/// | `allgather(exec, buffer, partition, what)` | every piece holds its owner's bytes |
/// | `allreduce(exec, buffer, what)` | the sum over ranks: the two above with an even partition |
/// | `broadcast(exec, buffer, root, what)` | root's bytes |
/// | `sum_in_rank_order(doubles, what)`, `sum / min / max(int64s, what)` | host scalars, the same bits on every rank |
/// | `gather_text(mine, what)` | every rank's text (any bytes, any length), by rank |
/// | `barrier(what)` | nothing; all ranks have called it |
/// | `set_form(form)` | sums travel along `form`, see Form; all ranks want the same |
/// | `duplicate(name)`, `split(color, key, name)` | a new communicator; `split` with no colour gives none |
/// | `channel(name)` | an ordered channel for send and receive (collective to make) |
namespace krama {

/// What has gone through one communicator on this rank since it was made.
struct Traffic {
  std::int64_t calls = 0;          ///< operations on tensors
  std::int64_t control_calls = 0;  ///< operations on host scalars and text, first-call checks
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  std::vector<std::int64_t> bytes_to = {};  ///< of those sent, by receiver; may be shorter
  std::int64_t bytes_staged = 0;  ///< copied between tensors and staging buffers, both ways

  /// Counts one message.
  void sent(int to, std::int64_t bytes);
};

/// Element types that can be summed across ranks.
template <class A>
concept Reducible =
    std::same_as<A, float> || std::same_as<A, double> || std::same_as<A, std::int64_t>;

/// An ordered channel: messages from one rank to another arrive in the order sent. Sending never
/// waits for the receiver (the bytes are copied), so any order of sends and receives is safe.
template <class C>
concept Channel = requires(
    C c, Kokkos::DefaultHostExecutionSpace exec, TensorRef<float, 1, Kokkos::HostSpace> buffer,
    TensorRef<const float, 1, Kokkos::HostSpace> source, std::string_view what) {
  c.send(exec, source, 0, what);
  c.receive(exec, buffer, 0, what);
};

/// See the contract at the top of this file.
template <class C>
concept Communicator =
    std::copyable<C> &&
    requires(C c, const C k, Kokkos::DefaultHostExecutionSpace exec,
             TensorRef<float, 1, Kokkos::HostSpace> buffer, const Partition& partition,
             std::span<double> reals, std::span<std::int64_t> integers, std::string_view what,
             std::optional<int> color, const WireEncoding& wire) {
      { k.rank() } -> std::convertible_to<int>;
      { k.size() } -> std::convertible_to<int>;
      { k.name() } -> std::convertible_to<std::string>;
      { k.transport() } -> std::convertible_to<std::string>;
      { k.form() } -> std::convertible_to<Form>;
      { k.traffic() } -> std::convertible_to<Traffic>;
      c.set_form(k.form());
      { c.duplicate(what) } -> std::same_as<C>;
      { c.split(color, 0, what) } -> std::same_as<std::optional<C>>;
      { c.channel(what) } -> Channel;
      c.reduce_scatter(exec, buffer, partition, what);
      { c.start_reduce_scatter(exec, buffer, partition, what, wire) } -> std::same_as<Pending>;
      c.allgather(exec, buffer, partition, what);
      c.allreduce(exec, buffer, what);
      c.broadcast(exec, buffer, 0, what);
      c.sum_in_rank_order(reals, what);
      c.sum(integers, what);
      c.min(integers, what);
      c.max(integers, what);
      { c.gather_text(what, what) } -> std::same_as<std::vector<std::string>>;
      c.barrier(what);
    };

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE void Traffic::sent(int to, std::int64_t bytes) {
  messages_sent += 1;
  bytes_sent += bytes;
  const auto receiver = static_cast<std::size_t>(to);
  if (bytes_to.size() <= receiver) bytes_to.resize(receiver + 1);
  bytes_to[receiver] += bytes;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
