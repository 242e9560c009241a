// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <krama/comm/communicator.hpp>
#include <krama/comm/emulated_links.hpp>
#include <krama/comm/form.hpp>
#include <krama/comm/transport.hpp>
#include <krama/comm/watchdog.hpp>
#include <krama/core/error.hpp>

namespace krama {

/// Which calls compare what they were asked to do across ranks before they move data.
enum class CallCheck : std::uint8_t { first_of_each_name, always, never };

/// Whether a waiting rank gives its core away between polls.
enum class Yield : std::uint8_t { when_oversubscribed, always, never };

/// How an MpiComm works. All ranks use the same values, but for the transport and the watchdog's.
struct MpiOptions {
  Transport transport = default_transport();
  /// Longest single message, in elements of what is sent; longer ones are cut. MPI counts are int.
  std::int64_t max_count = INT_MAX / 16;
  /// Reductions and gathers move pieces in chunks of this size, a few in flight for each peer, so
  /// that adding overlaps the transfer and finds its data in the cache.
  std::int64_t chunk_bytes = std::int64_t{512} * 1024;
  int chunks_in_flight = 2;
  /// Along which trees sums travel; see Form. Ranks with unlike forms are refused.
  Form form = {};
  /// Messages are dealt over this many MPI communicators in turn. MPI libraries and their networks
  /// may give each its own queue or card; results do not depend on it.
  int rails = 1;
  /// For tests and benches: messages take as long as on these links; see EmulatedLinks.
  std::shared_ptr<EmulatedLinks> emulated = nullptr;
  CallCheck check = CallCheck::first_of_each_name;
  Yield yield = Yield::when_oversubscribed;
  /// A wait in which nothing arrives for so long is reported by `on_stall`; 0: never.
  double watchdog_seconds = default_watchdog_seconds();
  /// Gets the text of the report. Unset: prints it and ends the job with MPI_Abort. If it returns,
  /// the wait goes on; if it throws, the communicator cannot be used any more.
  std::function<void(const std::string&)> on_stall;
};

}  // namespace krama
