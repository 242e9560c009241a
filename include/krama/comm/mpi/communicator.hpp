// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/mpi/allgather.hpp>
#include <krama/comm/mpi/allreduce.hpp>
#include <krama/comm/mpi/broadcast.hpp>
#include <krama/comm/mpi/channel.hpp>
#include <krama/comm/mpi/control.hpp>
#include <krama/comm/mpi/detail/instances.hpp>
#include <krama/comm/mpi/detail/make.hpp>
#include <krama/comm/mpi/detail/started_reduce.hpp>
#include <krama/comm/mpi/options.hpp>
#include <krama/comm/mpi/reduce_scatter.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// Ranks of an MPI job. Owns duplicates of the MPI communicator it is made from, so its messages
/// never meet the user's; copies of the object share them, the last one frees them (unless MPI has
/// ended before). Only the thread that started MPI calls it. See communicator.hpp for the contract.
class MpiComm {
 public:
  /// Of a user's communicator, which stays the user's. Collective over it; waits.
  /// \throws Error when the ranks' executables were built from versions that do not fit.
  explicit MpiComm(MPI_Comm original, std::string_view name = "user",
                   const MpiOptions& options = {});

  /// Of all ranks of the job.
  static MpiComm world(const MpiOptions& options = {}) {
    return MpiComm(MPI_COMM_WORLD, "world", options);
  }

  [[nodiscard]] int rank() const { return state_->rank; }
  [[nodiscard]] int size() const { return state_->size; }
  [[nodiscard]] const std::string& name() const { return state_->name; }
  [[nodiscard]] const Traffic& traffic() const { return state_->traffic; }
  [[nodiscard]] const MpiOptions& options() const { return state_->options; }
  /// Waiting gives the core away between polls.
  [[nodiscard]] bool yields() const { return state_->yield; }
  /// What was asked for; `describe_transport<M>(comm)` tells what it comes to in memory space M.
  [[nodiscard]] Transport transport_wanted() const { return state_->options.transport; }
  /// How tensors in the host's memory travel.
  [[nodiscard]] std::string transport() const {
    return describe_transport<Kokkos::HostSpace>(*this);
  }

  /// Along which trees sums travel.
  [[nodiscard]] const Form& form() const { return state_->options.form; }
  /// Another form from the next call on, for all copies of this object. Collective over comm; waits.
  /// \throws Error, the same on every rank, when ranks want unlike forms or one for other ranks, or
  /// when an operation that was started has not been waited for
  void set_form(const Form& form);

  /// Changes, for this communicator on this rank, how long a wait may stall and what happens then.
  void set_watchdog(double seconds, std::function<void(const std::string&)> on_stall);

  [[nodiscard]] MpiComm duplicate(std::string_view name) {
    return duplicate(name, state_->options);
  }
  [[nodiscard]] MpiComm duplicate(std::string_view name, const MpiOptions& options);

  /// The ranks that give the same colour (0 or more), ordered by key, then rank; none without one.
  [[nodiscard]] std::optional<MpiComm> split(std::optional<int> color, int key,
                                             std::string_view name);

  [[nodiscard]] MpiChannel channel(std::string_view name);

  template <ExecutionSpace E, Reducible A, MemorySpace M>
  void reduce_scatter(const E& exec, TensorRef<A, 1, M> buffer, const Partition& partition,
                      std::string_view what) {
    comm::detail::reduce_scatter(*state_, exec, buffer, partition, what);
  }
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  [[nodiscard]] Pending start_reduce_scatter(const E& exec, TensorRef<A, 1, M> buffer,
                                             const Partition& partition, std::string_view what,
                                             const WireEncoding& wire = {}) {
    return comm::detail::start_reduce_scatter(state_, exec, buffer, partition, what, wire);
  }
  template <ExecutionSpace E, class T, MemorySpace M>
  void allgather(const E& exec, TensorRef<T, 1, M> buffer, const Partition& partition,
                 std::string_view what) {
    comm::detail::allgather(*state_, exec, buffer, partition, what);
  }
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  void allreduce(const E& exec, TensorRef<A, 1, M> buffer, std::string_view what) {
    comm::detail::allreduce(*state_, exec, buffer, what);
  }
  template <ExecutionSpace E, class T, MemorySpace M>
  void broadcast(const E& exec, TensorRef<T, 1, M> buffer, int root, std::string_view what) {
    comm::detail::broadcast(*state_, exec, buffer, root, what);
  }

  void sum_in_rank_order(std::span<double> values, std::string_view what) {
    fold(comm::detail::Call::sum_reals, values, what, [](double a, double b) { return a + b; });
  }
  void sum(std::span<std::int64_t> values, std::string_view what);
  void min(std::span<std::int64_t> values, std::string_view what);
  void max(std::span<std::int64_t> values, std::string_view what);
  [[nodiscard]] std::vector<std::string> gather_text(std::string_view mine, std::string_view what);
  void barrier(std::string_view what) {
    comm::detail::exchange(*state_, {comm::detail::Call::barrier, DType::u8, 0, 0, what}, {});
  }

 private:
  explicit MpiComm(std::shared_ptr<comm::detail::State> state) : state_(std::move(state)) {}

  template <class T, class With>
  void fold(comm::detail::Call call, std::span<T> values, std::string_view what, With with) {
    comm::detail::fold(*state_, call, values, what, with);
  }

  std::shared_ptr<comm::detail::State> state_;
};

static_assert(Communicator<MpiComm>);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE MpiComm::MpiComm(MPI_Comm original, std::string_view name, const MpiOptions& options)
    : state_(comm::detail::make_state(original, name, options, true)) {
  comm::detail::greet(*state_);
  const bool oversubscribed = comm::detail::is_oversubscribed(*state_);
  state_->yield = options.yield == Yield::always ||
                  (options.yield == Yield::when_oversubscribed && oversubscribed);
  state_->traffic = {};
}

KRAMA_INLINE void MpiComm::set_form(const Form& form) {
  auto& s = *state_;
  const bool idle = s.under_way.empty();
  const bool fits = form.ranks() == 0 || form.ranks() == s.size;
  const auto all = comm::detail::exchange(
      s, {comm::detail::Call::set_form, DType::u8, 0, 0, "krama::comm::set_form"},
      fmt::format("{}{}", idle && fits ? "" : "!", form.text()));
  for (std::size_t r = 0; r < all.size(); ++r) {
    KRAMA_EXPECTS(
        all[r] == all[0] && all[r].front() != '!',
        "set_form on communicator \"{}\" of {} ranks: rank 0 wants {}, rank {} {} (\"!\": "
        "it is for another number of ranks, or a started operation has not been "
        "waited for)",
        s.name, s.size, all[0], r, all[r]);
  }
  s.set_form(form);
}

KRAMA_INLINE void MpiComm::set_watchdog(double seconds,
                                        std::function<void(const std::string&)> on_stall) {
  state_->options.watchdog_seconds = seconds;
  state_->options.on_stall = std::move(on_stall);
}

KRAMA_INLINE MpiComm MpiComm::duplicate(std::string_view name, const MpiOptions& options) {
  comm::detail::exchange(*state_, {comm::detail::Call::duplicate, DType::u8, 0, 0, name}, {});
  const bool yield =
      options.yield == Yield::when_oversubscribed ? state_->yield : options.yield == Yield::always;
  return MpiComm(comm::detail::make_state(state_->control, name, options, yield));
}

KRAMA_INLINE std::optional<MpiComm> MpiComm::split(std::optional<int> color, int key,
                                                   std::string_view name) {
  KRAMA_EXPECTS(!color || *color >= 0, "split \"{}\": colour {} is negative", name, *color);
  comm::detail::exchange(*state_, {comm::detail::Call::split, DType::u8, 0, 0, name}, {});
  // Everybody is here now, so the one call that MPI has only in a blocking form does not wait.
  MPI_Comm part = MPI_COMM_NULL;
  comm::detail::check(MPI_Comm_split(state_->control, color.value_or(MPI_UNDEFINED), key, &part),
                      "MPI_Comm_split", state_->rank);
  if (part == MPI_COMM_NULL) return std::nullopt;
  MpiOptions options = state_->options;
  if (options.form.ranks() > 0) options.form = Form::star();  // made for all ranks, not for these
  auto state = comm::detail::make_state(part, name, options, state_->yield);
  comm::detail::check(MPI_Comm_free(&part), "MPI_Comm_free", state_->rank);
  return MpiComm(std::move(state));
}

KRAMA_INLINE MpiChannel MpiComm::channel(std::string_view name) {
  comm::detail::exchange(*state_, {comm::detail::Call::channel, DType::u8, 0, 0, name}, {});
  return MpiChannel(
      comm::detail::make_state(state_->control, name, state_->options, state_->yield));
}

KRAMA_INLINE void MpiComm::sum(std::span<std::int64_t> values, std::string_view what) {
  fold(comm::detail::Call::sum, values, what, [](std::int64_t a, std::int64_t b) { return a + b; });
}

KRAMA_INLINE void MpiComm::min(std::span<std::int64_t> values, std::string_view what) {
  fold(comm::detail::Call::min, values, what,
       [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
}

KRAMA_INLINE void MpiComm::max(std::span<std::int64_t> values, std::string_view what) {
  fold(comm::detail::Call::max, values, what,
       [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}

KRAMA_INLINE std::vector<std::string> MpiComm::gather_text(std::string_view mine,
                                                           std::string_view what) {
  return comm::detail::exchange(*state_, {comm::detail::Call::gather_text, DType::u8, 0, 0, what},
                                mine);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
