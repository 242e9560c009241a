// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <krama/comm/mpi/detail/staging.hpp>
#include <krama/comm/mpi/detail/state.hpp>
#include <krama/core/concepts.hpp>
#include <krama/definitions.hpp>

namespace krama {

/// An ordered channel between the ranks of a communicator, on an MPI communicator of its own.
/// `send` copies and returns; `receive` waits. Copies of the object share the channel.
class MpiChannel {
 public:
  explicit MpiChannel(std::shared_ptr<comm::detail::State> state)
      : wire_(std::make_shared<Wire>(std::move(state))) {}

  /// Sends a copy of `source` to rank `to`. Fences `exec`; does not wait for the receiver.
  template <ExecutionSpace E, class T, MemorySpace M>
  void send(const E& exec, TensorRef<T, 1, M> source, int to, std::string_view what) {
    auto& s = *wire_->state;
    check_peer("send", to, what);
    s.guarded("send", what, [&] {
      wire_->reap(s.waiting("send", what));
      const std::int64_t bytes = source.size() * static_cast<std::int64_t>(sizeof(T));
      Parcel parcel{std::vector<unsigned char>(static_cast<std::size_t>(bytes)), {}};
      using V = std::remove_const_t<T>;
      TensorRef<V, 1, Kokkos::HostSpace> copied(reinterpret_cast<V*>(parcel.bytes.data()),
                                                {source.size()});
      copy(exec, copied, TensorRef<const V, 1, M>(source));
      kokkos_ext::fence(exec, "krama::comm: before a send");
      wire_->post(std::move(parcel), to);
    });
  }

  /// The next message from rank `from` into `target`, whose size must be the message's. Fences
  /// `exec`; waits.
  template <ExecutionSpace E, class T, MemorySpace M>
  void receive(const E& exec, TensorRef<T, 1, M> target, int from, std::string_view what) {
    auto& s = *wire_->state;
    check_peer("receive", from, what);
    comm::detail::on_host(s, exec, target, what, false, true, [&](T* data) {
      s.guarded("receive", what, [&] {
        const std::int64_t bytes = target.size() * static_cast<std::int64_t>(sizeof(T));
        // The length travels first: a misfit is an error here, not a cut message or a long wait.
        std::int64_t sent = 0;
        s.flight.receive(s.rail(), &sent, sizeof(sent), from, tag, 0);
        s.flight.wait_all(s.waiting("receive", what));
        if (sent != bytes) {
          // The message stays on the wire, so nothing after it could be told apart from it.
          s.broken = fmt::format("\"{}\" on rank {} wants {} bytes, rank {} sent {}", what, s.rank,
                                 bytes, from, sent);
          throw Error(fmt::format("channel \"{}\": {}", s.name, s.broken));
        }
        auto* p = reinterpret_cast<unsigned char*>(data);
        for (std::int64_t at = 0; at < bytes; at += s.options.max_count) {
          s.flight.receive(s.rail(), p + at, std::min(s.options.max_count, bytes - at), from, tag,
                           0);
        }
        s.flight.wait_all(s.waiting("receive", what));
        wire_->reap(s.waiting("receive", what));
      });
    });
  }

  [[nodiscard]] const Traffic& traffic() const { return wire_->state->traffic; }

 private:
  static constexpr int tag = 0;

  /// Bytes on their way and the requests that read them.
  struct Parcel {
    std::vector<unsigned char> bytes;
    std::vector<MPI_Request> requests;
    std::unique_ptr<std::int64_t> length = nullptr;
  };

  struct Wire {
    std::shared_ptr<comm::detail::State> state;
    std::deque<Parcel> under_way;

    explicit Wire(std::shared_ptr<comm::detail::State> s) : state(std::move(s)) {}
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    /// Messages sent are delivered before the channel goes, unless the program is failing.
    ~Wire();

    void post(Parcel parcel, int to);

    void start(Parcel& parcel, const void* data, std::int64_t bytes, int to) const;

    /// Lets go of the oldest messages that have been taken.
    void reap(const comm::detail::Waiting& waiting);
  };

  void check_peer(const char* call, int peer, std::string_view what) const;

  std::shared_ptr<Wire> wire_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE MpiChannel::Wire::~Wire() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  try {
    comm::detail::Patience patience;
    const auto waiting = state->waiting("close", state->name);
    while (state->broken.empty() && std::uncaught_exceptions() == 0 && !under_way.empty()) {
      reap(waiting);
      if (!under_way.empty()) patience.nothing_yet(waiting, [](StallReport&) {});
    }
  } catch (const std::exception&) {
    // A destructor has nobody to tell; the requests are given up below.
  }
  for (auto& parcel : under_way) {
    for (auto& request : parcel.requests) {
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
    // MPI may still read the bytes of a message that nobody has taken.
    static_cast<void>(new Parcel(std::move(parcel)));
  }
}

KRAMA_INLINE void MpiChannel::Wire::post(Parcel parcel, int to) {
  auto& s = *state;
  parcel.length = std::make_unique<std::int64_t>(parcel.bytes.size());
  start(parcel, parcel.length.get(), sizeof(std::int64_t), to);
  const auto bytes = static_cast<std::int64_t>(parcel.bytes.size());
  for (std::int64_t at = 0; at < bytes; at += s.options.max_count) {
    start(parcel, parcel.bytes.data() + at, std::min(s.options.max_count, bytes - at), to);
  }
  under_way.push_back(std::move(parcel));
}

KRAMA_INLINE void MpiChannel::Wire::start(Parcel& parcel, const void* data, std::int64_t bytes,
                                          int to) const {
  MPI_Request request = MPI_REQUEST_NULL;
  comm::detail::check(
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, state->rail(), &request),
      "MPI_Isend", state->rank);
  parcel.requests.push_back(request);
  state->traffic.sent(to, bytes);
}

KRAMA_INLINE void MpiChannel::Wire::reap(const comm::detail::Waiting& waiting) {
  while (!under_way.empty()) {
    auto& requests = under_way.front().requests;
    int done = 0;
    comm::detail::check(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
        "MPI_Testall", waiting.rank);
    if (done == 0) return;
    under_way.pop_front();
  }
}

KRAMA_INLINE void MpiChannel::check_peer(const char* call, int peer, std::string_view what) const {
  const auto& s = *wire_->state;
  KRAMA_EXPECTS(peer >= 0 && peer < s.size, "channel \"{}\": {} of \"{}\": rank {} of {}", s.name,
                call, what, peer, s.size);
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
