// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include <krama/comm/mpi/detail/state.hpp>
#include <krama/kokkos_ext/seam.hpp>
#include <krama/tensor/copy.hpp>

namespace krama::comm::detail {

/// Whether the tensor's bytes go through a buffer of the communicator's own.
template <MemorySpace M>
bool is_staged(const State& s, std::string_view what) {
  const TransportChoice choice = choose_transport<M>(s.options.transport);
  KRAMA_EXPECTS(!choice.refused,
                "\"{}\" lies in {}: {}; the transport of communicator \"{}\" is {}, wanted "
                "automatic, staged or direct",
                what, M::name(), choice.reason, s.name, name_of(s.options.transport));
  return choice.staged;
}

/// A tensor whose bytes are on their way: waits for the work in `exec` and gives a pointer that the
/// host may use, the tensor's own or, when staged, a copy's. `read`: the copy has the tensor's
/// contents; `write`: they go back in `finish`. Its staging buffer is its own until it is destroyed.
template <ExecutionSpace E, class T, MemorySpace M>
class Transfer {
 public:
  Transfer(State& s, const E& exec, TensorRef<T, 1, M> buffer, std::string_view what, bool read,
           bool write)
      : s_(s), exec_(exec), buffer_(buffer), data_(buffer.data()), write_(write) {
    if (is_staged<M>(s, what)) {
      const auto bytes = static_cast<std::size_t>(buffer.size()) * sizeof(T);
      staging_ = s.staging.take();
      data_ = reinterpret_cast<T*>(staging_->at_least(bytes));
      if (read) copy_counted(staged(), buffer_);
    }
    // Kernels may still be writing what the peers are about to read (or reading what they send).
    kokkos_ext::fence(exec_, "krama::comm: before the transfer");
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    if (staging_) s_.staging.give_back(std::move(staging_));
  }

  [[nodiscard]] T* data() const { return data_; }

  void finish() {
    if (!staging_ || !write_) return;
    copy_counted(buffer_, staged());
    kokkos_ext::fence(exec_, "krama::comm: after the transfer");
  }

 private:
  [[nodiscard]] TensorRef<T, 1, Kokkos::HostSpace> staged() const {
    return {data_, {buffer_.size()}};
  }
  template <class To, class From>
  void copy_counted(const To& to, const From& from) {
    copy(exec_, to, from);
    s_.traffic.bytes_staged += buffer_.size() * static_cast<std::int64_t>(sizeof(T));
  }

  State& s_;
  E exec_;
  TensorRef<T, 1, M> buffer_;
  T* data_;
  bool write_;
  std::unique_ptr<Buffer> staging_;
};

/// Hands `body` a pointer to the tensor's bytes that the host may use; see Transfer.
template <ExecutionSpace E, class T, MemorySpace M, class Body>
void on_host(State& s, const E& exec, TensorRef<T, 1, M> buffer, std::string_view what, bool read,
             bool write, Body&& body) {
  Transfer<E, T, M> transfer(s, exec, buffer, what, read, write);
  body(transfer.data());
  transfer.finish();
}

}  // namespace krama::comm::detail
