// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>

#include <krama/config.hpp>

#if (KRAMA_HAS_NCCL && defined(KOKKOS_ENABLE_CUDA)) || \
    (KRAMA_HAS_RCCL && defined(KOKKOS_ENABLE_HIP))
#include <cstddef>
#include <cstdint>
#include <string>

#include <krama/core/dtype.hpp>
#include <krama/core/error.hpp>
#include <krama/kokkos_ext/event.hpp>
#include <krama/kokkos_ext/native.hpp>

#if KRAMA_HAS_NCCL
#include <nccl.h>
#else
#include <rccl/rccl.h>
#endif

/// NCCL, or RCCL, which has its names, as a `DeviceComm` wants it. Compiled against NCCL 2.28 and RCCL
/// 2.13; not run yet. Before version 2.14 they cannot return before they are done: there a rank that
/// dies while others start or connect leaves them waiting in the library, out of the watchdog's reach.
namespace krama::comm::detail {

struct Nccl {
#if KRAMA_HAS_NCCL
  using Exec = Kokkos::Cuda;
  static constexpr const char* name = "NCCL";
#else
  using Exec = Kokkos::HIP;
  static constexpr const char* name = "RCCL";
#endif
  using Comm = ncclComm_t;
  using Id = ncclUniqueId;
  using Result = ncclResult_t;
  using Event = kokkos_ext::Event<Exec>;

  static bool good(Result r) { return r == ncclSuccess; }
  static bool in_progress([[maybe_unused]] Result r) {
#if NCCL_VERSION_CODE >= 21400
    return r == ncclInProgress;
#else
    return false;
#endif
  }
  static std::string text(Result r, Comm comm) {
    const char* last = ncclGetLastError(comm);
    std::string words = ncclGetErrorString(r);
    if (last != nullptr && *last != '\0') words += std::string(" (") + last + ")";
    return words;
  }

  static Result make_id(Id& id) { return ncclGetUniqueId(&id); }
  /// Where the library can, it returns at once and goes on on its own; see `state`.
  static Result start(Comm& comm, int size, const Id& id, int rank) {
#if NCCL_VERSION_CODE >= 21400
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return ncclCommInitRankConfig(&comm, size, id, rank, &config);
#else
    return ncclCommInitRank(&comm, size, id, rank);
#endif
  }
  /// What has become of the communicator: good, in progress, or an error, also one of another rank.
  static Result state(Comm comm) {
    Result state = ncclSuccess;
    const Result asked = ncclCommGetAsyncError(comm, &state);
    return asked == ncclSuccess ? state : asked;
  }
  static Result finish(Comm comm) {
#if NCCL_VERSION_CODE >= 21400
    return ncclCommFinalize(comm);
#else
    static_cast<void>(comm);
    return ncclSuccess;
#endif
  }
  static void destroy(Comm comm) { static_cast<void>(ncclCommDestroy(comm)); }
  /// Ends what is under way, on this rank.
  static void abort(Comm comm) { static_cast<void>(ncclCommAbort(comm)); }

  static Result begin_group() { return ncclGroupStart(); }
  static Result end_group() { return ncclGroupEnd(); }
  /// In place; `data` of the others than the root stays as it is.
  static Result reduce(void* data, std::int64_t n, DType type, int root, Comm comm,
                       const Exec& exec) {
    return ncclReduce(data, data, static_cast<std::size_t>(n), type_of(type), ncclSum, root, comm,
                      kokkos_ext::native_stream(exec));
  }
  /// In place: rank r's sum of `n` elements each lands in the r-th piece.
  static Result reduce_scatter(void* data, std::int64_t n, DType type, int rank, Comm comm,
                               const Exec& exec) {
    return ncclReduceScatter(data, piece(data, n, type, rank), static_cast<std::size_t>(n),
                             type_of(type), ncclSum, comm, kokkos_ext::native_stream(exec));
  }
  static Result broadcast(void* data, std::int64_t bytes, int root, Comm comm, const Exec& exec) {
    return ncclBroadcast(data, data, static_cast<std::size_t>(bytes), ncclUint8, root, comm,
                         kokkos_ext::native_stream(exec));
  }
  /// In place, of `bytes` from every rank.
  static Result allgather(void* data, std::int64_t bytes, int rank, Comm comm, const Exec& exec) {
    return ncclAllGather(piece(data, bytes, DType::u8, rank), data, static_cast<std::size_t>(bytes),
                         ncclUint8, comm, kokkos_ext::native_stream(exec));
  }

 private:
  static void* piece(void* data, std::int64_t n, DType type, int rank) {
    return static_cast<char*>(data) + rank * n * size_of(type);
  }
  static ncclDataType_t type_of(DType t) {
    switch (t) {
      case DType::f64:
        return ncclFloat64;
      case DType::f32:
        return ncclFloat32;
      case DType::i64:
        return ncclInt64;
      default:
        throw Error(fmt::format("{}: no sums of {}", name, name_of(t)));
    }
  }
};

}  // namespace krama::comm::detail
#endif
