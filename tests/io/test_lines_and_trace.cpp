// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/jsonl.hpp>
#include <krama/io/trace_json.hpp>
//
#include <sys/resource.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "io/faults.hpp"
#include "io/io_test.hpp"

using namespace io_test;
using krama::io::JsonLines;
using krama::io::TraceWriter;
using nlohmann::json;

TEST_CASE("jsonl: one line per value, on its way before write returns", "[io]") {
  const TempFolder folder;
  const auto path = folder / "metrics.jsonl";
  JsonLines lines(path);
  lines.write({{"step", 1}, {"loss", 2.5}});
  CHECK(read_file(path) == "{\"loss\":2.5,\"step\":1}\n");
  lines.write({{"loss", std::numeric_limits<double>::quiet_NaN()}, {"text", "a\nb\xff"}});
  lines.close();
  CHECK(read_file(path) ==
        "{\"loss\":2.5,\"step\":1}\n{\"loss\":null,\"text\":\"a\\nb\xef\xbf\xbd\"}\n");
  CHECK_THROWS_AS(lines.write(1), std::logic_error);
  JsonLines more(path);
  more.write(3);
  CHECK(read_file(path).ends_with("}\n3\n"));
}

TEST_CASE("K01: jsonl: a writer killed in mid-line loses that line only", "[io]") {
  const TempFolder folder;
  const auto path = folder / "metrics.jsonl";
  const int status = in_child([&] {
    Faults::plan(Faults::Kind::kill_half, 3);
    JsonLines lines(path, Faults::calls());
    for (int i = 0; i < 10; ++i) lines.write({{"step", i}});
    return 0;
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(read_file(path) == "{\"step\":0}\n{\"step\":1}\n{\"ste");
  JsonLines lines(path);
  lines.write({{"step", 2}});
  CHECK(read_file(path) == "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
}

TEST_CASE("jsonl: torn lines of all lengths", "[io]") {
  const TempFolder folder;
  for (const std::size_t torn : {0U, 1U, 4095U, 4096U, 4097U, 20'000U}) {
    for (const std::string before : {"", "1\n"}) {
      write_file(folder / "f", before + std::string(torn, 'x'));
      JsonLines lines(folder / "f");
      CHECK(read_file(folder / "f") == before);
    }
  }
}

TEST_CASE("K09: jsonl: errors are reported and leave no part of a line", "[io]") {
  const TempFolder folder;
  const auto path = folder / "f";
  if (fs::exists("/dev/full")) {
    JsonLines lines("/dev/full");
    CHECK(has(message_of([&] { lines.write(1); }),
              "/dev/full: line not written: found No space left on device"));
  }
  CHECK(
      has(message_of([&] { JsonLines lines(folder / "a/b"); }), "cannot be opened for appending"));
  CHECK(has(message_of([&] { JsonLines lines(folder.path()); }), "cannot be opened for appending"));
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{.rlim_cur = 105, .rlim_max = 105};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    JsonLines lines(path);
    for (int i = 0; i < 5; ++i) lines.write(std::string(17, 'x'));  // 20 bytes each
    return has(message_of([&] { lines.write(std::string(17, 'y')); }), "ulimit -f") ? 0 : 1;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(read_file(path).size() == 100);
  Faults::plan(Faults::Kind::fail, 1, EIO);
  JsonLines lines(path, Faults::calls());
  CHECK(has(message_of([&] { lines.close(); }), "closing failed"));
}

TEST_CASE("trace: events in the form that viewers open", "[io]") {
  const TempFolder folder;
  const auto path = folder / "trace.json";
  {
    TraceWriter trace(path);
    trace.process(3, "rank 3 \"x86-64-v3\"", 3);
    trace.thread({.pid = 3, .tid = 1}, "compute", 0);
    trace.complete({.pid = 3, .tid = 1}, "forward\n0", "step", 1e9 + 0.125, 12.5, {{"block", 0}});
    trace.complete({.pid = 3, .tid = 1}, "x", "step", 0, 0);
    trace.instant({.pid = 3, .tid = 1}, "saved", "io", 7);
    trace.flow_start({.pid = 3, .tid = 2}, "bucket", "comm", 8, 42);
    trace.flow_end({.pid = 4, .tid = 2}, "bucket", "comm", 9, 42);
    CHECK_FALSE(fs::exists(path));
    trace.commit();
  }
  const json all = json::parse(read_file(path));
  CHECK(all["displayTimeUnit"] == "ms");
  const json& e = all["traceEvents"];
  REQUIRE(e.size() == 9);
  CHECK(e[0]["name"] == "process_name");
  CHECK(e[0]["args"]["name"] == "rank 3 \"x86-64-v3\"");
  CHECK(e[1]["args"]["sort_index"] == 3);
  CHECK(e[2] == json({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 3},
                      {"tid", 1},
                      {"args", {{"name", "compute"}}}}));
  CHECK(e[4] == json({{"ph", "X"},
                      {"name", "forward\n0"},
                      {"cat", "step"},
                      {"pid", 3},
                      {"tid", 1},
                      {"ts", 1e9 + 0.125},
                      {"dur", 12.5},
                      {"args", {{"block", 0}}}}));
  CHECK(e[6]["s"] == "t");
  CHECK(e[7]["id"] == e[8]["id"]);
  CHECK(e[8]["bp"] == "e");
  // Times stay exact to the nanosecond and are never in exponent form.
  CHECK(has(read_file(path), "\"ts\":1000000000.125,"));
}

TEST_CASE("trace: an empty one, impossible times, no commit", "[io]") {
  const TempFolder folder;
  {
    TraceWriter trace(folder / "empty");
    trace.commit();
  }
  CHECK(json::parse(read_file(folder / "empty"))["traceEvents"].empty());
  TraceWriter trace(folder / "f");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(trace.complete({}, "x", "y", 0, -1), std::invalid_argument);
  CHECK_THROWS_AS(trace.complete({}, "x", "y", 0, nan), std::invalid_argument);
  CHECK_THROWS_AS(trace.complete({}, "x", "y", nan, 1), std::invalid_argument);
  CHECK_FALSE(fs::exists(folder / "f"));
}
