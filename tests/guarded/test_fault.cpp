// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/tensor/copy.hpp>
#include <krama/testing/guarded/device.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <string>

using namespace krama;
using Catch::Matchers::ContainsSubstring;
using testing::GuardedDevice;
using testing::GuardedSpace;

namespace {

/// What a child process that runs `body` says on its way out; "survived" when it comes back.
/// `body` may start no threads: a child has none of its parent's.
template <class Body>
std::string last_words(const Body& body) {
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGSEGV, SIG_DFL);  // not the test framework's
    testing::guarded::watch_for_faults();
    body();
    testing::guarded::detail::say("survived");
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  // Sanitizers turn the signal into an exit of their own.
  const bool failed = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
  CHECK(failed == (text != "survived"));
  return text;
}

}  // namespace

TEST_CASE("guarded: the host's touch of device memory is caught and named", "[guarded]") {
  const GuardedDevice exec;
  const Tensor<float, 1, GuardedSpace> alpha(exec, "alpha", {100}), beta(exec, "beta", {100});
  fill(exec, alpha.ref(), 1.0F);
  fill(exec, beta.ref(), 1.0F);
  kokkos_ext::fence(exec, "test");
  float* a = alpha.data();
  volatile float* b = beta.data();

  const std::string reading = last_words([&] {
    volatile float v = *(b + 55);
    (void)v;
  });
  CHECK_THAT(reading,
             ContainsSubstring("the host touched device memory: label \"beta\", byte 220"));
  CHECK_THAT(reading, ContainsSubstring("krama_test_guarded"));  // the stack
  CHECK_THAT(last_words([&] { b[0] = 1.0F; }), ContainsSubstring("label \"beta\", byte 0"));
  CHECK_THAT(last_words([&] {
               float sum = 0;
               for (int i = 0; i < 100; ++i) sum += a[i];
               volatile float v = sum;
               (void)v;
             }),
             ContainsSubstring("label \"alpha\", byte 0"));
  CHECK(last_words([] {}) == "survived");
}

TEST_CASE("guarded: memory that was freed is caught", "[guarded]") {
  const GuardedDevice exec;
  volatile float* p = nullptr;
  {
    const Tensor<float, 1, GuardedSpace> t(exec, "gone", {100});
    p = t.data();
  }
  CHECK_THAT(last_words([&] { p[3] = 1.0F; }), ContainsSubstring("not allocated (any more)"));
}

TEST_CASE("guarded: another bad address is left to others", "[guarded]") {
  void* elsewhere = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(elsewhere != MAP_FAILED);
  const std::string text = last_words([&] { *static_cast<volatile int*>(elsewhere) = 1; });
  CHECK_THAT(text, !ContainsSubstring("guarded device"));
}
