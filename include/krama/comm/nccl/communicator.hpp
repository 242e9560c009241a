// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/comm/nccl/detail/started.hpp>
#include <krama/comm/nccl/detail/state.hpp>
#include <krama/comm/nccl/library.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/comm/world.hpp>

namespace krama {

/// Ranks whose devices are of one vendor: tensors in device memory travel by the vendor's library
/// (NCCL, RCCL), everything else (scalars, text, agreements, channels, tensors of the host) over
/// `Control`, an MpiComm of the same ranks. See communicator.hpp for the contract.
///
/// What differs from the contract there: the order of additions is the library's own, whatever the
/// form. Each element of a sum is still finished on one rank, its owner, and copied as bytes, also by
/// `allreduce`, so all ranks hold the same bits; another number of ranks, version of the library or
/// set of links may give others. Sums are of Reducible types only: gradients are f32 or f64 whatever
/// the activations' type, and a sum in bf16 or f16 would be rounded at every step of its way.
///
/// Operations run on the stream of the instance that they are given. A rank that fails ends the
/// others' waits as an error: the library's report of it, or the watchdog's after
/// KRAMA_WATCHDOG_SECONDS; the communicator is broken then. It must be gone before Kokkos ends.
///
/// The library moves what it likes: Traffic counts calls, and the messages of `Control`.
template <class Library, Communicator Control>
class DeviceComm {
 public:
  using Exec = typename Library::Exec;

  /// Tensors of this space travel by the library.
  template <ExecutionSpace E, MemorySpace M>
  static constexpr bool on_device =
      std::is_same_v<E, Exec> && std::is_same_v<M, typename Exec::memory_space>;

  /// All ranks of `control`, which this object keeps a duplicate of; `exec` names this rank's device.
  /// Collective over `control`; waits.
  /// \throws Error, the same on every rank, when the devices are of several vendors
  DeviceComm(Control& control, const Exec& exec, std::string_view name,
             double watchdog_seconds = default_watchdog_seconds())
      : state_(std::make_shared<State>(control.duplicate(name), exec, name, watchdog_seconds)) {}

  [[nodiscard]] int rank() const { return state_->rank(); }
  [[nodiscard]] int size() const { return state_->size(); }
  [[nodiscard]] const std::string& name() const { return state_->name; }
  [[nodiscard]] std::string transport() const {
    return fmt::format("{}, control: {}", Library::name, state_->control.transport());
  }
  [[nodiscard]] Traffic traffic() const {
    Traffic sum = state_->control.traffic();
    sum.calls += state_->traffic.calls;
    return sum;
  }

  /// Of sums of tensors on the host; the library has its own ways.
  [[nodiscard]] const Form& form() const { return state_->control.form(); }
  void set_form(const Form& form) { state_->control.set_form(form); }

  [[nodiscard]] DeviceComm duplicate(std::string_view name) {
    return DeviceComm(state_->control, state_->exec, name, state_->watchdog_seconds);
  }
  [[nodiscard]] std::optional<DeviceComm> split(std::optional<int> color, int key,
                                                std::string_view name) {
    std::optional<Control> part = state_->control.split(color, key, name);
    if (!part) return std::nullopt;
    return DeviceComm(
        std::make_shared<State>(std::move(*part), state_->exec, name, state_->watchdog_seconds));
  }
  /// Its messages travel over the control communicator.
  [[nodiscard]] auto channel(std::string_view name) { return state_->control.channel(name); }

  template <ExecutionSpace E, Reducible A, MemorySpace M>
  void reduce_scatter(const E& exec, TensorRef<A, 1, M> buffer, const Partition& partition,
                      std::string_view what) {
    if constexpr (on_device<E, M>) {
      finish(start_reduce_scatter(exec, buffer, partition, what));
    } else {
      state_->control.reduce_scatter(exec, buffer, partition, what);
    }
  }

  /// On the stream of `exec`: kernels given to that instance later run after it.
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  [[nodiscard]] Pending start_reduce_scatter(const E& exec, TensorRef<A, 1, M> buffer,
                                             const Partition& partition, std::string_view what,
                                             const WireEncoding& wire = {}) {
    if constexpr (on_device<E, M>) {
      KRAMA_EXPECTS(wire.format == WireFormat::f32,
                    "\"{}\" should travel as {}, which {} does not do; use an MpiComm, or the wire "
                    "format f32 with this communicator",
                    what, name_of(wire.format), Library::name);
      begin("reduce_scatter", buffer, partition, what);
      return start(exec, "reduce_scatter", what, [&](const State& s) {
        if (even(partition)) {
          return Library::reduce_scatter(buffer.data(), partition.count(0), dtype_of<A>, s.rank(),
                                         s.comm(), exec);
        }
        return for_pieces(partition, [&](int p) {
          return Library::reduce(buffer.data() + partition.begin(p), partition.count(p),
                                 dtype_of<A>, p, s.comm(), exec);
        });
      });
    } else {
      return state_->control.start_reduce_scatter(exec, buffer, partition, what, wire);
    }
  }

  template <ExecutionSpace E, class T, MemorySpace M>
  void allgather(const E& exec, TensorRef<T, 1, M> buffer, const Partition& partition,
                 std::string_view what) {
    if constexpr (on_device<E, M>) {
      begin("allgather", buffer, partition, what);
      finish(start(exec, "allgather", what, [&](const State& s) {
        if (even(partition)) {
          return Library::allgather(buffer.data(), bytes_of<T>(partition.count(0)), s.rank(),
                                    s.comm(), exec);
        }
        return for_pieces(partition, [&](int p) {
          return Library::broadcast(buffer.data() + partition.begin(p),
                                    bytes_of<T>(partition.count(p)), p, s.comm(), exec);
        });
      }));
    } else {
      state_->control.allgather(exec, buffer, partition, what);
    }
  }

  /// Sums to owners, then bytes from owners: the library's own allreduce does not promise the same
  /// bits on every rank.
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  void allreduce(const E& exec, TensorRef<A, 1, M> buffer, std::string_view what) {
    if constexpr (on_device<E, M>) {
      const auto partition = Partition::even(buffer.size(), size());
      finish(start_reduce_scatter(exec, buffer, partition, what));
      allgather(exec, buffer, partition, what);
    } else {
      state_->control.allreduce(exec, buffer, what);
    }
  }

  template <ExecutionSpace E, class T, MemorySpace M>
  void broadcast(const E& exec, TensorRef<T, 1, M> buffer, int root, std::string_view what) {
    if constexpr (on_device<E, M>) {
      KRAMA_EXPECTS(root >= 0 && root < size(), "broadcast \"{}\": the root is rank {} of {}", what,
                    root, size());
      state_->begin("broadcast", what, [&] {
        return fmt::format("{} {} elements from rank {}", buffer.size(), name_of(dtype_of<T>),
                           root);
      });
      if (buffer.size() == 0) return kokkos_ext::fence(exec, "krama::comm::device");
      finish(start(exec, "broadcast", what, [&](const State& s) {
        return Library::broadcast(buffer.data(), bytes_of<T>(buffer.size()), root, s.comm(), exec);
      }));
    } else {
      state_->control.broadcast(exec, buffer, root, what);
    }
  }

  void sum_in_rank_order(std::span<double> values, std::string_view what) {
    state_->control.sum_in_rank_order(values, what);
  }
  void sum(std::span<std::int64_t> values, std::string_view what) {
    state_->control.sum(values, what);
  }
  void min(std::span<std::int64_t> values, std::string_view what) {
    state_->control.min(values, what);
  }
  void max(std::span<std::int64_t> values, std::string_view what) {
    state_->control.max(values, what);
  }
  [[nodiscard]] std::vector<std::string> gather_text(std::string_view mine, std::string_view what) {
    return state_->control.gather_text(mine, what);
  }
  void barrier(std::string_view what) { state_->control.barrier(what); }

 private:
  using State = comm::detail::DeviceState<Library, Control>;

  explicit DeviceComm(std::shared_ptr<State> state) : state_(std::move(state)) {}

  template <class T>
  static constexpr std::int64_t bytes_of(std::int64_t n) {
    return n * static_cast<std::int64_t>(sizeof(T));
  }
  /// All pieces are alike: the library has one operation for that.
  static bool even(const Partition& partition) {
    for (int p = 1; p < partition.parts(); ++p) {
      if (partition.count(p) != partition.count(0)) return false;
    }
    return partition.count(0) > 0;
  }

  template <class T, MemorySpace M>
  void begin(const char* call, TensorRef<T, 1, M> buffer, const Partition& partition,
             std::string_view what) {
    KRAMA_EXPECTS(
        partition.parts() == size() && partition.size() == buffer.size(),
        "{} \"{}\": a partition of {} elements in {} parts does not fit {} elements on {} "
        "ranks",
        call, what, partition.size(), partition.parts(), buffer.size(), size());
    state_->begin(call, what, [&] {
      std::string cuts;
      for (const std::int64_t cut : partition.cuts()) cuts += fmt::format(" {}", cut);
      return fmt::format("{} {} elements, cuts{}", buffer.size(), name_of(dtype_of<T>), cuts);
    });
  }

  /// Null on one rank, where there is nothing to move.
  template <class Enqueue>
  Pending start(const Exec& exec, std::string_view operation, std::string_view what,
                Enqueue&& enqueue) {
    if (size() == 1) {
      kokkos_ext::fence(exec, "krama::comm::device");
      return nullptr;
    }
    return std::make_unique<comm::detail::StartedOnDevice<Library, Control>>(
        state_, exec, operation, what, std::forward<Enqueue>(enqueue));
  }
  static void finish(const Pending& pending) {
    if (pending != nullptr) pending->wait();
  }

  /// Calls for each piece that is not empty, up to the first result that is not good.
  template <class Call>
  static typename Library::Result for_pieces(const Partition& partition, const Call& call) {
    typename Library::Result result{};  // good, in every such library
    for (int p = 0; p < partition.parts(); ++p) {
      if (partition.count(p) > 0) result = call(p);
      if (!Library::good(result) && !Library::in_progress(result)) break;
    }
    return result;
  }

  std::shared_ptr<State> state_;
};

#if (KRAMA_HAS_NCCL && defined(KOKKOS_ENABLE_CUDA)) || \
    (KRAMA_HAS_RCCL && defined(KOKKOS_ENABLE_HIP))
/// By NCCL, or by RCCL where Kokkos computes with HIP.
using NcclComm = DeviceComm<comm::detail::Nccl, World>;
static_assert(Communicator<NcclComm>);
#endif

}  // namespace krama
