// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <krama/comm/mpi/detail/state.hpp>
#include <krama/comm/wire_format.hpp>
#include <krama/core/dtype.hpp>
#include <krama/definitions.hpp>

/// Small exchanges on the control communicator. Every one carries the signature of the call, so a
/// rank that calls something else is noticed by all ranks in the same exchange.
namespace krama::comm::detail {

enum class Call : std::uint8_t {
  reduce_scatter,
  allgather,
  allreduce,
  broadcast,
  sum_reals,
  sum,
  min,
  max,
  gather_text,
  barrier,
  duplicate,
  split,
  channel,
  set_form
};

const char* name_of(Call call);

/// What a rank is about to do. Two ranks do the same when all fields but `payload_bytes` agree.
struct Signature {
  Call call{};
  DType dtype{};
  std::int64_t count = 0;
  std::uint64_t detail = 0;  ///< root, or a hash of the partition's cuts
  std::string_view what;
  WireFormat wire = WireFormat::f32;
};

/// One rank's part of an exchange as it travels: of fixed size and layout on every back end.
struct Envelope {
  std::uint8_t call;
  std::uint8_t dtype;
  std::uint8_t wire;
  std::uint8_t reserved[5];
  std::int64_t count;
  std::uint64_t detail;
  std::uint64_t calls_before;  ///< operations on tensors so far: a skipped one shows here
  std::uint64_t what_hash;
  std::int64_t payload_bytes;
  char what[80];  ///< cut when longer; the hash is of all of it
  unsigned char payload[128];
};
static_assert(sizeof(Envelope) == 256 && std::is_trivially_copyable_v<Envelope>);

/// Sends `bytes` in messages of at most the configured length.
void send_cut(State& s, MPI_Comm comm, const void* data, std::int64_t bytes, int to, int tag);
void receive_cut(State& s, MPI_Comm comm, void* data, std::int64_t bytes, int from, int tag);

/// Sends mine to everybody and receives everybody's. `at(r)` is where rank r's bytes belong.
template <class At, class Bytes>
void swap_with_all(State& s, const Waiting& waiting, int tag, At&& at, Bytes&& bytes) {
  for (int i = 1; i < s.size; ++i) {
    const int from = (s.rank + s.size - i) % s.size;
    receive_cut(s, s.control, at(from), bytes(from), from, tag);
  }
  for (int i = 1; i < s.size; ++i) {
    const int to = (s.rank + i) % s.size;
    send_cut(s, s.control, at(s.rank), bytes(s.rank), to, tag);
  }
  s.flight.wait_all(waiting);
}

std::string describe(const Envelope& e);

/// Throws the same error on every rank when the ranks' calls differ.
void compare(State& s, const std::vector<Envelope>& all);

/// Every rank's payload, by rank. The payloads may differ in length.
/// \throws Error, the same on all ranks, when the signatures differ.
std::vector<std::string> exchange(State& s, const Signature& signature, std::string_view payload);

/// values = the ranks' values folded in rank order: the same bits on every rank.
template <class T, class Fold>
void fold(State& s, Call call, std::span<T> values, std::string_view what, Fold&& with) {
  const std::string_view mine(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  const auto all =
      exchange(s, {call, dtype_of<T>, static_cast<std::int64_t>(values.size()), 0, what}, mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      T v{};
      std::memcpy(&v, all[r].data() + i * sizeof(T), sizeof(T));
      values[i] = r == 0 ? v : with(values[i], v);
    }
  }
}

/// Calls whose tags are sure to differ.
inline constexpr std::uint64_t calls_apart = 64;

/// Compares what the ranks are about to do with a tensor: on the first call with each name (or
/// always, or never), before any data moves. Counts the call.
/// \return the tag of the call's messages, made from its signature: calls that differ never match
/// each other's messages even when they are not compared.
int begin_call(State& s, const Signature& signature);

}  // namespace krama::comm::detail

#if KRAMA_DEFINITIONS

namespace krama::comm::detail {

KRAMA_INLINE const char* name_of(Call call) {
  static constexpr const char* names[] = {
      "reduce_scatter",    "allgather", "allreduce", "broadcast",
      "sum_in_rank_order", "sum",       "min",       "max",
      "gather_text",       "barrier",   "duplicate", "split",
      "channel",           "set_form"};
  return names[static_cast<std::size_t>(call)];
}

KRAMA_INLINE void send_cut(State& s, MPI_Comm comm, const void* data, std::int64_t bytes, int to,
                           int tag) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (std::int64_t at = 0; at < bytes; at += s.options.max_count) {
    s.flight.send(comm, p + at, std::min(s.options.max_count, bytes - at), to, tag, 0);
  }
}

KRAMA_INLINE void receive_cut(State& s, MPI_Comm comm, void* data, std::int64_t bytes, int from,
                              int tag) {
  auto* p = static_cast<unsigned char*>(data);
  for (std::int64_t at = 0; at < bytes; at += s.options.max_count) {
    s.flight.receive(comm, p + at, std::min(s.options.max_count, bytes - at), from, tag, 0);
  }
}

KRAMA_INLINE std::string describe(const Envelope& e) {
  const auto call = static_cast<Call>(e.call);
  std::string text = fmt::format("{} \"{}\"", name_of(call), e.what);
  switch (call) {
    case Call::reduce_scatter:
    case Call::allgather:
    case Call::allreduce:
      text += fmt::format(" of {} {} elements", e.count, name_of(static_cast<DType>(e.dtype)));
      if (call == Call::reduce_scatter) {
        text += fmt::format(" as {}", krama::name_of(static_cast<WireFormat>(e.wire)));
      }
      if (call != Call::allreduce)
        text += fmt::format(" (partition {:08x})", e.detail & 0xffffffffU);
      break;
    case Call::broadcast:
      text += fmt::format(" of {} {} elements from rank {}", e.count,
                          name_of(static_cast<DType>(e.dtype)), e.detail);
      break;
    case Call::sum_reals:
    case Call::sum:
    case Call::min:
    case Call::max:
      text += fmt::format(" of {} values", e.count);
      break;
    default:
      break;
  }
  return text + fmt::format(" after {} calls", e.calls_before);
}

KRAMA_INLINE void compare(State& s, const std::vector<Envelope>& all) {
  const auto same = [](const Envelope& a, const Envelope& b) {
    return a.call == b.call && a.dtype == b.dtype && a.count == b.count && a.detail == b.detail &&
           a.wire == b.wire && a.calls_before == b.calls_before && a.what_hash == b.what_hash;
  };
  if (std::all_of(all.begin(), all.end(),
                  [&](const Envelope& e) { return same(e, all.front()); })) {
    return;
  }
  std::string text;
  std::vector<bool> told(all.size(), false);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (told[r]) continue;
    std::vector<int> ranks;
    for (std::size_t q = r; q < all.size(); ++q) {
      if (!same(all[r], all[q])) continue;
      told[q] = true;
      ranks.push_back(static_cast<int>(q));
    }
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", krama::detail::list_ranks(ranks),
                        describe(all[r]));
  }
  const std::string message = fmt::format(
      "the ranks of communicator \"{}\" called different operations: {}. Every "
      "rank must make the same calls in the same order",
      s.name, text);
  // After a skipped call messages of it may still be about: nothing can be told apart any more.
  // Otherwise nothing has been sent yet and the communicator is as good as before.
  if (std::any_of(all.begin(), all.end(),
                  [&](const Envelope& e) { return e.calls_before != all.front().calls_before; })) {
    s.broken = message;
  }
  throw Error(message);
}

KRAMA_INLINE std::vector<std::string> exchange(State& s, const Signature& signature,
                                               std::string_view payload) {
  ++s.traffic.control_calls;
  std::vector<std::string> result(static_cast<std::size_t>(s.size));
  s.guarded(name_of(signature.call), signature.what, [&] {
    std::vector<Envelope> all(static_cast<std::size_t>(s.size));
    Envelope& mine = all[static_cast<std::size_t>(s.rank)];
    mine.call = static_cast<std::uint8_t>(signature.call);
    mine.dtype = static_cast<std::uint8_t>(signature.dtype);
    mine.wire = static_cast<std::uint8_t>(signature.wire);
    mine.count = signature.count;
    mine.detail = signature.detail;
    mine.calls_before = s.calls;
    mine.what_hash = hash_text(signature.what);
    mine.payload_bytes = static_cast<std::int64_t>(payload.size());
    std::memcpy(mine.what, signature.what.data(),
                std::min(signature.what.size(), sizeof(mine.what) - 1));
    const bool fits = payload.size() <= sizeof(mine.payload);
    if (fits && !payload.empty()) std::memcpy(mine.payload, payload.data(), payload.size());

    const auto waiting = s.waiting(name_of(signature.call), signature.what);
    swap_with_all(
        s, waiting, 1, [&](int r) { return &all[static_cast<std::size_t>(r)]; },
        [](int) { return std::int64_t{sizeof(Envelope)}; });
    compare(s, all);

    for (std::size_t r = 0; r < all.size(); ++r) {
      const auto bytes = static_cast<std::size_t>(all[r].payload_bytes);
      result[r].resize(bytes);
      if (bytes > 0 && bytes <= sizeof(mine.payload)) {
        std::memcpy(result[r].data(), all[r].payload, bytes);
      }
    }
    // Payloads that fit have travelled in the envelopes; all ranks know who has a longer one.
    result[static_cast<std::size_t>(s.rank)] = payload;
    swap_with_all(
        s, waiting, 2, [&](int r) { return result[static_cast<std::size_t>(r)].data(); },
        [&](int r) {
          const auto bytes = all[static_cast<std::size_t>(r)].payload_bytes;
          return bytes > std::int64_t{sizeof(mine.payload)} ? bytes : std::int64_t{0};
        });
  });
  return result;
}

KRAMA_INLINE int begin_call(State& s, const Signature& signature) {
  KRAMA_EXPECTS(s.broken.empty(), "{} \"{}\": communicator \"{}\" broke earlier: {}",
                name_of(signature.call), signature.what, s.name, s.broken);
  std::uint64_t h = hash_text(signature.what);
  const auto call = static_cast<std::uint8_t>(signature.call);
  h = hash_bytes(&call, sizeof(call), h);
  const bool first = s.names_seen.insert(h).second;
  if (s.size > 1 && (s.options.check == CallCheck::always ||
                     (s.options.check == CallCheck::first_of_each_name && first))) {
    try {
      exchange(s, signature, {});
    } catch (...) {
      s.names_seen.erase(h);  // so that the next call with this name is compared as well
      throw;
    }
  }
  // Messages of calls that are under way together must not be taken for one another's.
  KRAMA_EXPECTS(
      s.under_way.empty() || s.calls - *s.under_way.begin() < calls_apart,
      "{} \"{}\" on communicator \"{}\": an operation that was started {} calls ago has not "
      "been waited for; wait for it first",
      name_of(signature.call), signature.what, s.name, s.calls - *s.under_way.begin());
  const auto dtype = static_cast<std::uint8_t>(signature.dtype);
  h = hash_bytes(&dtype, sizeof(dtype), h);
  const auto wire = static_cast<std::uint8_t>(signature.wire);
  h = hash_bytes(&wire, sizeof(wire), h);
  h = hash_bytes(&signature.count, sizeof(signature.count), h);
  h = hash_bytes(&signature.detail, sizeof(signature.detail), h);
  h = hash_bytes(&s.calls, sizeof(s.calls), h);
  const auto number = static_cast<int>(s.calls % calls_apart);
  ++s.calls;
  ++s.traffic.calls;
  // MPI promises tags up to 32767, and one bit says up or down.
  return number << 8 | static_cast<int>((h ^ (h >> 32)) & 0xffU);
}

}  // namespace krama::comm::detail

#endif  // KRAMA_DEFINITIONS
