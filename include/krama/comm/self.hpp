// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <krama/comm/communicator.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/tensor/copy.hpp>

namespace krama {

/// A channel from one rank to itself.
class SelfChannel {
 public:
  explicit SelfChannel(std::string_view name) : state_(std::make_shared<State>()) {
    state_->name = name;
  }

  /// Copies `source` into the channel. Fences `exec`.
  template <ExecutionSpace E, class T, MemorySpace M>
  void send(const E& exec, TensorRef<T, 1, M> source, int to, std::string_view what) {
    check_peer("send", to, what);
    using V = std::remove_const_t<T>;
    const auto values = download(exec, TensorRef<const V, 1, M>(source));
    std::vector<char> bytes(values.size() * sizeof(V));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    state_->messages.push_back(std::move(bytes));
  }

  /// The oldest message sent and not yet received. Fences `exec`.
  template <ExecutionSpace E, class T, MemorySpace M>
  void receive(const E& exec, TensorRef<T, 1, M> target, int from, std::string_view what) {
    check_peer("receive", from, what);
    KRAMA_EXPECTS(!state_->messages.empty(),
                  "channel \"{}\": receive of \"{}\" from this rank itself, but nothing was sent",
                  state_->name, what);
    const std::vector<char> bytes = std::move(state_->messages.front());
    state_->messages.pop_front();
    const std::size_t wanted = static_cast<std::size_t>(target.size()) * sizeof(T);
    KRAMA_EXPECTS(bytes.size() == wanted, "channel \"{}\": \"{}\" wants {} bytes, {} were sent",
                  state_->name, what, wanted, bytes.size());
    std::vector<T> values(static_cast<std::size_t>(target.size()));
    if (wanted > 0) std::memcpy(values.data(), bytes.data(), wanted);
    upload(exec, target, std::span<const T>(values));
  }

 private:
  struct State {
    std::string name;
    std::deque<std::vector<char>> messages;
  };

  void check_peer(const char* call, int peer, std::string_view what) const;

  std::shared_ptr<State> state_;
};

/// The communicator of a job of one rank: same interface, nothing is sent. Sums over one rank are
/// the values themselves, so every operation only checks its arguments.
class SelfComm {
 public:
  explicit SelfComm(std::string_view name = "self") : state_(std::make_shared<State>()) {
    state_->name = name;
  }

  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] const std::string& name() const { return state_->name; }
  [[nodiscard]] std::string transport() const { return "self"; }
  [[nodiscard]] const Traffic& traffic() const { return state_->traffic; }

  [[nodiscard]] const Form& form() const { return state_->form; }
  void set_form(const Form& form);

  [[nodiscard]] SelfComm duplicate(std::string_view name) const { return SelfComm(name); }
  [[nodiscard]] std::optional<SelfComm> split(std::optional<int> color, int /*key*/,
                                              std::string_view name) const;
  [[nodiscard]] SelfChannel channel(std::string_view name) const { return SelfChannel(name); }

  /// Fences `exec`, as every communicator does.
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  void reduce_scatter(const E& exec, TensorRef<A, 1, M> buffer, const Partition& partition,
                      std::string_view what) {
    check_partition("reduce_scatter", buffer.size(), partition, what);
    done(exec);
  }
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  [[nodiscard]] Pending start_reduce_scatter(const E& exec, TensorRef<A, 1, M> buffer,
                                             const Partition& partition, std::string_view what,
                                             const WireEncoding& wire = {}) {
    check_encoding(wire, dtype_of<A>, buffer.size(), what);
    reduce_scatter(exec, buffer, partition, what);
    return nullptr;
  }
  template <ExecutionSpace E, class T, MemorySpace M>
  void allgather(const E& exec, TensorRef<T, 1, M> buffer, const Partition& partition,
                 std::string_view what) {
    check_partition("allgather", buffer.size(), partition, what);
    done(exec);
  }
  template <ExecutionSpace E, Reducible A, MemorySpace M>
  void allreduce(const E& exec, TensorRef<A, 1, M> /*buffer*/, std::string_view /*what*/) {
    done(exec);
  }
  template <ExecutionSpace E, class T, MemorySpace M>
  void broadcast(const E& exec, TensorRef<T, 1, M> /*buffer*/, int root, std::string_view what) {
    KRAMA_EXPECTS(root == 0, "broadcast \"{}\": the root is rank {} of 1", what, root);
    done(exec);
  }

  void sum_in_rank_order(std::span<double> /*values*/, std::string_view /*what*/) { control(); }
  void sum(std::span<std::int64_t> /*values*/, std::string_view /*what*/) { control(); }
  void min(std::span<std::int64_t> /*values*/, std::string_view /*what*/) { control(); }
  void max(std::span<std::int64_t> /*values*/, std::string_view /*what*/) { control(); }
  [[nodiscard]] std::vector<std::string> gather_text(std::string_view mine,
                                                     std::string_view /*what*/);
  void barrier(std::string_view /*what*/) { control(); }

 private:
  struct State {
    std::string name;
    Form form;
    Traffic traffic;
  };

  template <ExecutionSpace E>
  void done(const E& exec) {
    ++state_->traffic.calls;
    kokkos_ext::fence(exec, "krama::comm::self");
  }
  void control() { ++state_->traffic.control_calls; }

  static void check_partition(const char* call, std::int64_t size, const Partition& partition,
                              std::string_view what);

  std::shared_ptr<State> state_;
};

static_assert(Communicator<SelfComm>);

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE void SelfChannel::check_peer(const char* call, int peer, std::string_view what) const {
  KRAMA_EXPECTS(peer == 0, "channel \"{}\": {} of \"{}\": rank {} of 1", state_->name, call, what,
                peer);
}

KRAMA_INLINE void SelfComm::set_form(const Form& form) {
  KRAMA_EXPECTS(form.ranks() <= 1, "set_form: a {} form made for {} ranks on 1 rank", form.name(),
                form.ranks());
  state_->form = form;
}

KRAMA_INLINE std::optional<SelfComm> SelfComm::split(std::optional<int> color, int /*key*/,
                                                     std::string_view name) const {
  if (!color) return std::nullopt;
  return SelfComm(name);
}

KRAMA_INLINE std::vector<std::string> SelfComm::gather_text(std::string_view mine,
                                                            std::string_view /*what*/) {
  control();
  return {std::string(mine)};
}

KRAMA_INLINE void SelfComm::check_partition(const char* call, std::int64_t size,
                                            const Partition& partition, std::string_view what) {
  KRAMA_EXPECTS(partition.parts() == 1 && partition.size() == size,
                "{} \"{}\": a partition of {} elements in {} parts does not fit {} elements on 1 "
                "rank",
                call, what, partition.size(), partition.parts(), size);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
