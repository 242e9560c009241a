// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/io/atomic_file.hpp>
#include <krama/io/safetensors.hpp>
//
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "io/faults.hpp"
#include "io/io_test.hpp"

using namespace io_test;
using krama::io::AtomicFile;
using krama::io::ElementType;

namespace {

/// A small checkpoint whose tensors all hold `value`; one is larger than the writer's buffer.
void save(const fs::path& path, float value, const krama::io::detail::SysCalls& calls = {}) {
  const std::vector<float> small(10, value);
  const std::vector<float> large(200'000, value);
  krama::io::SafetensorsWriter writer(path,
                                      {{"a", ElementType::f32, {10}},
                                       {"b", ElementType::f32, {400, 500}},
                                       {"c", ElementType::f32, {2, 5}}},
                                      {{"value", std::to_string(value)}}, calls);
  writer.write<float>("a", small);
  writer.write<float>("b", std::span(large).first(70'000));
  writer.write<float>("b", std::span(large).subspan(70'000));
  writer.write<float>("c", small);
  writer.commit();
}

/// The value that all tensors of the checkpoint hold; throws if it is not one and the same.
float load(const fs::path& path) {
  const krama::io::SafetensorsReader reader(path);
  const float value = reader.read<float>("a").at(0);
  for (const auto* name : {"a", "b", "c"}) {
    for (const float v : reader.read<float>(name)) {
      if (v != value) throw std::runtime_error("a mixture of old and new");
    }
  }
  if (reader.metadata().at("value") != std::to_string(value)) throw std::runtime_error("metadata");
  return value;
}

/// Gives this process mounts of its own, so that one made at `folder` is seen nowhere else.
bool own_mounts(fs::path folder) {
  if (::unshare(CLONE_NEWNS) != 0) return false;
  // Only a mount point can be made private, and in a chroot "/" is none: take the nearest above.
  while (::mount("none", folder.c_str(), nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    if (folder == folder.root_path()) return false;
    folder = folder.parent_path();
  }
  return true;
}

}  // namespace

TEST_CASE("atomic_file: replaces, and leaves no trace without commit", "[io]") {
  const TempFolder folder(fs::temp_directory_path());  // a real disk
  const auto path = folder / "f";
  {
    AtomicFile file(path);
    file.write(std::string_view("new"));
    CHECK_FALSE(fs::exists(path));
    file.commit();
    CHECK_THROWS_AS(file.write(std::string_view("more")), std::logic_error);
  }
  CHECK(read_file(path) == "new");
  {
    AtomicFile file(path);
    file.write(std::string(1'000'000, 'x'));
  }
  CHECK(read_file(path) == "new");
  {
    AtomicFile file(path);
    file.write(std::string_view("0123"));
    file.write(std::string(300'000, 'y'));
    file.rewrite(1, as_bytes("AB"));
    CHECK_THROWS_AS(file.rewrite(300'003, as_bytes("AB")), std::logic_error);
    CHECK(file.size() == 300'004);
    file.commit();
  }
  CHECK(read_file(path) == "0AB3" + std::string(300'000, 'y'));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("K01: killed at any system call, a save leaves the old file or the new one", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  const auto path = folder / "c.safetensors";
  for (const auto kind : {Faults::Kind::kill, Faults::Kind::kill_half}) {
    int kills = 0;
    int olds = 0;
    int news = 0;
    for (int at = 1;; ++at) {
      save(path, 1.0F);
      const int status = in_child([&] {
        Faults::plan(kind, at);
        save(path, 2.0F, Faults::calls());
        return 0;
      });
      const float value = load(path);
      CHECK((value == 1.0F || value == 2.0F));
      if (WIFEXITED(status)) {
        REQUIRE(WEXITSTATUS(status) == 0);
        CHECK(value == 2.0F);
        if (kind == Faults::Kind::kill || at > 20) break;
        continue;
      }
      REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
      ++kills;
      ++(value == 1.0F ? olds : news);
    }
    // Writes, header, fsync, close, rename, folder; the last kill comes when the new file is in
    // place.
    CHECK(kills >= (kind == Faults::Kind::kill ? 8 : 4));
    CHECK(olds >= 4);
    if (kind == Faults::Kind::kill) CHECK(news == 1);
    save(path, 3.0F);  // what a dead writer left is in nobody's way
    CHECK(load(path) == 3.0F);
  }
  CHECK_FALSE(fs::exists(path.string() + ".tmp"));
}

TEST_CASE("K09: an error of any system call is reported and leaves the old file", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  const auto path = folder / "c.safetensors";
  int failures = 0;
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    for (int at = 1;; ++at) {
      save(path, 1.0F);
      Faults::plan(Faults::Kind::fail, at, error);
      const std::string message = message_of([&] { save(path, 2.0F, Faults::calls()); });
      if (Faults::count < at) {
        CHECK(message.empty());
        break;
      }
      ++failures;
      INFO("call " << at << ": " << message);
      CHECK(has(message, path.string()));
      CHECK(has(message, krama::io::detail::system_text(error)));
      const bool in_place = has(message, "complete and in place");
      CHECK(load(path) == (in_place ? 2.0F : 1.0F));
      CHECK_FALSE(fs::exists(path.string() + ".tmp"));
      CHECK(has(message, "free some space") == (error != EIO));
    }
  }
  CHECK(failures >= 24);
}

TEST_CASE("K09: short writes and EINTR are resumed", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  Faults::plan(Faults::Kind::hiccup, 0);
  AtomicFile file(folder / "f", 0, {.write = Faults::write, .pwrite = Faults::pwrite});
  std::string content;
  for (int i = 0; i < 100'000; ++i) content += std::to_string(i);
  file.write(content);
  file.rewrite(10'000, as_bytes(std::string(5'000, 'r')));
  file.commit();
  content.replace(10'000, 5'000, std::string(5'000, 'r'));
  CHECK(read_file(folder / "f") == content);
  CHECK(Faults::count > 900);
}

TEST_CASE("K09: a full device is an error, not a file", "[io]") {
  const int fd = ::open("/dev/full", O_WRONLY);
  if (fd < 0) SKIP("no /dev/full");
  CHECK(krama::io::detail::write_all({}, fd, as_bytes("x")) == ENOSPC);
  ::close(fd);
  // As a target it must not be renamed over.
  CHECK(has(message_of([] { AtomicFile file("/dev/full"); }), "cannot be replaced"));
  CHECK_FALSE(fs::exists("/dev/full.tmp"));
}

TEST_CASE("K09: ulimit -f is an error, not the end of the process", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  const auto path = folder / "c.safetensors";
  save(path, 1.0F);
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{.rlim_cur = 100'000, .rlim_max = 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of([&] { save(path, 2.0F); });
    return has(message, "ulimit -f") && has(message, path.string()) ? 0 : 1;
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(load(path) == 1.0F);
  CHECK_FALSE(fs::exists(path.string() + ".tmp"));
}

TEST_CASE("K09: a disk that fills up, for real", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  const auto path = folder / "c.safetensors";
  const int status = in_child([&] {
    if (!own_mounts(folder.path()) ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1200k") != 0) {
      return 77;
    }
    save(path, 1.0F);  // 800 KB; a second does not fit beside it
    if (!has(message_of([&] { save(path, 2.0F); }), "not enough space on the disk")) return 1;
    if (load(path) != 1.0F || fs::exists(path.string() + ".tmp")) return 2;
    const auto stream = [&] {
      AtomicFile file(path);  // no estimate: the writes find out
      for (int i = 0; i < 1000; ++i) file.write(std::string(10'000, 'x'));
      file.commit();
    };
    const std::string message = message_of(stream);
    if (!has(message, "No space left on device") || !has(message, "free some space")) return 3;
    return load(path) == 1.0F && !fs::exists(path.string() + ".tmp") ? 0 : 4;
  });
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) SKIP("no permission to mount");
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("K09: an estimate beyond the disk is refused before anything is written", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  const auto why = message_of([&] { AtomicFile file(folder / "f", std::int64_t{1} << 60); });
  CHECK(has(why, "not enough space on the disk"));
  CHECK(has(why, "wanted 1152921504606846976 bytes"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("atomic_file: two writers, bad targets", "[io]") {
  const TempFolder folder(fs::temp_directory_path());
  const auto path = folder / "f";
  {
    AtomicFile first(path);
    first.write(std::string_view("first"));
    CHECK(has(message_of([&] { AtomicFile second(path); }), "written by somebody else"));
    first.commit();
  }
  CHECK(read_file(path) == "first");
  AtomicFile third(path);  // the lock went with the first writer
  CHECK(has(message_of([&] { AtomicFile file(folder.path()); }), "cannot be replaced"));
  CHECK(has(message_of([&] { AtomicFile file(folder / "no/such/folder"); }), "cannot be created"));
  write_file(folder / "victim", "precious");
  fs::create_symlink(folder / "victim", folder / "g.tmp");
  CHECK(has(message_of([&] { AtomicFile file(folder / "g"); }), "cannot be created"));
  CHECK(read_file(folder / "victim") == "precious");
}
