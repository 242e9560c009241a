// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <krama/comm/find_form.hpp>
#include <krama/comm/host.hpp>
#include <krama/comm/topology.hpp>
#include <krama/comm/world.hpp>
#include <krama/config.hpp>
#include <krama/core/error.hpp>
#include <krama/definitions.hpp>
#include <krama/runtime/kokkos_scope.hpp>
#include <krama/runtime/quiet.hpp>
#include <krama/runtime/rank_table.hpp>

#if KRAMA_ENABLE_MPI
#include <krama/comm/mpi/environment.hpp>
#endif

namespace krama {

KRAMA_INSTANCE(FormFound find_form(World&, const Topology&, const std::string&));

struct RunOptions {
  bool print_table = true;  ///< the table of ranks at start; KRAMA_QUIET=1 hides it too
};

/// What a program that `run` starts has.
struct RunContext {
  World world;
  int argc = 0;
  char** argv = nullptr;
  Topology topology;  ///< of all ranks, agreed at the start
};

namespace runtime::detail {

/// How long a rank that failed waits for the others to fail alike before it ends the job.
inline constexpr double grace_seconds = 2.0;

/// How one rank's program ended.
struct Outcome {
  int code = 0;
  std::string error;  ///< text of the exception; empty when the program returned
};

/// "krama/comm/partition.hpp:41": enough to find the place, without the builder's folders.
std::string place(const std::source_location& where);

std::string describe_current_exception();

void print_error(const std::string& who, std::string_view text);

/// Calls the program in whichever form it was written.
template <class F>
int call(F& f, RunContext& context) {
  if constexpr (std::is_invocable_r_v<int, F&, RunContext&>) {
    return f(context);
  } else if constexpr (std::is_invocable_r_v<int, F&, World&, int, char**>) {
    return f(context.world, context.argc, context.argv);
  } else {
    static_assert(std::is_invocable_r_v<int, F&, World&>,
                  "krama::run: the program must be callable as int(RunContext&), "
                  "int(World&, int, char**) or int(World&)");
    return f(context.world);
  }
}

void print_table(const Topology& topology, const FormFound& form);

World make_world();

/// All ranks' outcomes, or nothing when some rank has not ended within the time allowed: a rank
/// that failed waits `grace` seconds, one that succeeded as long as the watchdog lets it.
std::optional<std::vector<Outcome>> agree(World& ending, const Outcome& mine,
                                          [[maybe_unused]] double grace);

void abort_job([[maybe_unused]] int code);

/// Runs the program and brings all ranks to the same end: their common exit code, or no return at
/// all when this rank failed and the others cannot be asked.
template <class F>
int run_program(F& f, RunContext& context, World& ending) {
  Outcome mine;
  try {
    check_transports(context.topology);
    mine.code = call(f, context);
    if (mine.code != 0) mine.code = std::clamp(std::abs(mine.code), 1, 255);
  } catch (...) {
    mine = {1, describe_current_exception()};
  }
  const std::string me = fmt::format("rank {}/{}", ending.rank(), host_name());
  // From a failure on, the process ends within ten seconds whatever happens.
  if (mine.code != 0) alarm(9);

  const auto all = agree(ending, mine, grace_seconds);
  if (!all) {
    print_error(me, mine.error.empty()
                        ? fmt::format("this rank ended with code {}, others go on", mine.code)
                        : mine.error);
    abort_job(mine.code != 0 ? mine.code : 1);
  }
  int code = 0;
  for (const auto& o : *all) code = std::max(code, o.code);
  if (code == 0) return 0;
  alarm(9);

  const bool same = std::all_of(all->begin(), all->end(),
                                [&](const Outcome& o) { return o.error == mine.error; });
  if (same) {
    // Every rank noticed the same fault: one line, and an orderly end.
    if (!mine.error.empty() && ending.rank() == 0) {
      const int n = ending.size();
      print_error(n == 1 ? me : fmt::format("all {} ranks", n), mine.error);
    }
    return code;
  }
  if (!mine.error.empty()) {
    print_error(me, mine.error);
    abort_job(mine.code);
  }
  return code;
}

/// The last word, by which a launcher knows that every rank came to a good end (the exit status of
/// mpiexec does not tell). Printed only for a launcher that asks.
void last_word(World& ending);

/// MPI's start, Kokkos' start, the program, Kokkos' end, the last word, MPI's end.
template <class F>
int run_job(int argc, char** argv, F& f, const RunOptions& options) {
  int code = 1;
  try {
#if KRAMA_ENABLE_MPI
    const MpiEnvironment mpi(argc, argv);
#endif
    std::optional<KokkosScope> kokkos;
    kokkos.emplace(argc, argv);
    World world = make_world();
    RunContext context{world, argc, argv, make_topology(world)};
    const FormFound form = find_form(world, context.topology);
    world.set_form(form.form);
    World ending = context.world.duplicate("krama::run");
    if (options.print_table && !is_quiet() && world.rank() == 0)
      print_table(context.topology, form);
    code = run_program(f, context, ending);
    kokkos.reset();  // communicators hold no memory of Kokkos and may outlive it
    if (code == 0) last_word(ending);
  } catch (...) {
    print_error(host_name(), describe_current_exception());
    abort_job(1);
  }
  return code;
}

}  // namespace runtime::detail

/// Runs a program `f` on every rank of a job and returns the job's exit code, the same on all ranks.
///
/// `f` is callable as `int(RunContext&)`, `int(World&, int argc, char** argv)` or `int(World&)`; it
/// returns 0 for success. MPI (where configured) and Kokkos are started unless the caller has
/// started them, and whoever started one ends it, Kokkos before MPI. Everything that holds tensors
/// must live inside `f`. Arguments that MPI and Kokkos understand are removed.
///
/// An exception becomes one line on stderr, `[krama][rank r/host] error: …`, and the end of the whole
/// job with a non-zero code in under ten seconds, wherever the other ranks are; when all ranks fail
/// alike, one line stands for all. A non-zero result of any rank is a non-zero code of all.
template <class F>
int run(int argc, char** argv, F&& f, const RunOptions& options = {}) {
  const int code = runtime::detail::run_job(argc, argv, f, options);
  if (code != 0) alarm(0);  // the job has ended in good order after all
  return code;
}

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama::runtime::detail {

KRAMA_INLINE std::string place(const std::source_location& where) {
  std::string_view file = where.file_name();
  const auto at = file.rfind("/krama/");
  file.remove_prefix(at != std::string_view::npos ? at + 1 : file.rfind('/') + 1);
  return fmt::format("{}:{}", file, where.line());
}

KRAMA_INLINE std::string describe_current_exception() {
  try {
    throw;
  } catch (const Error& e) {
    return fmt::format("{} ({})", e.what(), place(e.where()));
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

KRAMA_INLINE void print_error(const std::string& who, std::string_view text) {
  std::fflush(stdout);
  const std::string line = fmt::format("[krama][{}] error: {}\n", who, text);
  std::fputs(line.c_str(), stderr);  // one call: lines of several ranks do not mix
  std::fflush(stderr);
}

KRAMA_INLINE void print_table(const Topology& topology, const FormFound& form) {
  const RankTable table = make_rank_table(topology);
  std::fputs(table.text.c_str(), stdout);
  if (topology.groups() > 1) {
    fmt::print("sums travel: {} ({})\n", form.form.name(), form.reason);
  }
  std::fflush(stdout);
  for (const auto& warning : table.warnings) {
    std::fprintf(stderr, "[krama] warning: %s\n", warning.c_str());
  }
  std::fflush(stderr);
}

KRAMA_INLINE World make_world() {
#if KRAMA_ENABLE_MPI
  return MpiComm::world();
#else
  return World("world");
#endif
}

KRAMA_INLINE std::optional<std::vector<Outcome>> agree(World& ending, const Outcome& mine,
                                                       [[maybe_unused]] double grace) {
#if KRAMA_ENABLE_MPI
  if (mine.code != 0) {
    ending.set_watchdog(grace, [](const std::string& report) { throw Error(report); });
  }
#endif
  try {
    const auto texts =
        ending.gather_text(fmt::format("{}\n{}", mine.code, mine.error), "krama::run: the end");
    std::vector<Outcome> all;
    for (const auto& text : texts) {
      const auto cut = text.find('\n');
      all.push_back({std::atoi(text.substr(0, cut).c_str()), text.substr(cut + 1)});
    }
    return all;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

KRAMA_INLINE void abort_job([[maybe_unused]] int code) {
#if KRAMA_ENABLE_MPI
  // mpiexec drops what it has not yet read from the ranks when it ends the job: give it a moment.
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  MpiEnvironment::abort(code);
#endif
  std::_Exit(code);
}

KRAMA_INLINE void last_word(World& ending) {
  ending.barrier("krama::run: the last word");
  const char* nonce = std::getenv("KRAMA_LAUNCH_NONCE");
  if (ending.rank() != 0 || nonce == nullptr) return;
  std::printf("krama: all %d ranks finished [%s]\n", ending.size(), nonce);
  std::fflush(stdout);
}

}  // namespace krama::runtime::detail

#endif  // KRAMA_DEFINITIONS
