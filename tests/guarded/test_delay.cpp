// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/kernels/reduce.hpp>
#include <krama/kokkos_ext/order.hpp>
#include <krama/kokkos_ext/streams.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/testing/guarded/device.hpp>

#include <catch2/catch_all.hpp>
#include <vector>

using namespace krama;
using testing::DelayedWork;
using testing::GuardedDevice;
using testing::GuardedSpace;

namespace {
using Numbers = Tensor<double, 1, GuardedSpace>;

/// The first element as a host that fences, or forgets to, sees it.
double first_of(const GuardedDevice& exec, const Numbers& t, bool fences) {
  double here = -1.0;
  copy(exec, TensorRef<double, 1, Kokkos::HostSpace>(&here, {1}),
       TensorRef<double, 1, GuardedSpace>(t.data(), {1}));
  if (fences) kokkos_ext::fence(exec, "test");
  const double seen = here;
  kokkos_ext::fence(exec, "test: `here` must outlive the copy");
  return seen;
}
}  // namespace

TEST_CASE("guarded: a missing fence shows as wrong data while work is delayed", "[guarded]") {
  const GuardedDevice exec;
  const Numbers t(exec, "t", {100});
  fill(exec, t.ref(), 1.0);
  CHECK(first_of(exec, t, false) == 1.0);  // undetected without the delay
  const DelayedWork delayed;
  fill(exec, t.ref(), 2.0);
  CHECK(first_of(exec, t, false) == -1.0);
  fill(exec, t.ref(), 3.0);
  CHECK(first_of(exec, t, true) == 3.0);
}

TEST_CASE("guarded: delayed work keeps the order of its instance", "[guarded]") {
  const DelayedWork delayed;
  const GuardedDevice exec;
  const Numbers a(exec, "a", {100}), b(exec, "b", {100});
  for (int i = 0; i < 5; ++i) fill(exec, a.ref(), static_cast<double>(i));
  copy(exec, b.ref(), a.ref());
  fill(exec, a.ref(), -1.0);
  CHECK(exec.queue().waiting() == 7);
  CHECK(download(exec, b.ref())[99] == 4.0);
  CHECK(exec.queue().waiting() == 0);
}

TEST_CASE("guarded: instances have orders of their own", "[guarded]") {
  const DelayedWork delayed;
  const GuardedDevice one = kokkos_ext::separate_instance(GuardedDevice{});
  const GuardedDevice two = kokkos_ext::separate_instance(GuardedDevice{});
  CHECK_FALSE(one == two);
  CHECK_FALSE(one == GuardedDevice{});
  CHECK(Kokkos::Tools::Experimental::device_id(one) != Kokkos::Tools::Experimental::device_id(two));
  const Numbers t(one, "t", {100});
  fill(one, t.ref(), 1.0);
  kokkos_ext::fence(one, "test");
  fill(one, t.ref(), 2.0);
  CHECK(first_of(two, t, true) == 1.0);  // nobody told `two` to wait for `one`
  kokkos_ext::fence(one, "test");
  CHECK(first_of(two, t, true) == 2.0);
}

TEST_CASE("guarded: a missing order point shows as wrong data while work is delayed", "[guarded]") {
  const DelayedWork delayed;
  const GuardedDevice one = kokkos_ext::separate_instance(GuardedDevice{});
  const GuardedDevice two = kokkos_ext::separate_instance(GuardedDevice{});
  const Numbers t(one, "t", {100});
  fill(one, t.ref(), 1.0);
  kokkos_ext::fence(one, "test");
  fill(one, t.ref(), 2.0);
  CHECK(first_of(two, t, true) == 1.0);
  const auto before = kokkos_ext::seam_counts();
  kokkos_ext::order_after(two, one);
  fill(one, t.ref(), 3.0);            // behind the order point
  CHECK(one.queue().waiting() == 2);  // nobody has waited
  CHECK(first_of(two, t, true) == 2.0);
  CHECK(one.queue().waiting() == 1);
  CHECK(kokkos_ext::seam_counts().order_points == before.order_points + 1);
  // There and back: two's copy, then one's fill, then two's copy again.
  double first = 0;
  double second = 0;
  const auto copy_to = [&](double& here) {
    copy(two, TensorRef<double, 1, Kokkos::HostSpace>(&here, {1}),
         TensorRef<double, 1, GuardedSpace>(t.data(), {1}));
  };
  kokkos_ext::order_after(two, one);
  copy_to(first);
  kokkos_ext::order_after(one, two);
  fill(one, t.ref(), 4.0);
  kokkos_ext::order_after(two, one);
  copy_to(second);
  kokkos_ext::fence(two, "test");
  CHECK(first == 3.0);
  CHECK(second == 4.0);
}

TEST_CASE("guarded: without a delay order points have nothing to wait for", "[guarded]") {
  const GuardedDevice one = kokkos_ext::separate_instance(GuardedDevice{});
  const GuardedDevice two = kokkos_ext::separate_instance(GuardedDevice{});
  const Numbers t(one, "t", {100});
  fill(one, t.ref(), 5.0);
  kokkos_ext::order_after(two, one);
  kokkos_ext::order_after(one, one);
  CHECK(first_of(two, t, true) == 5.0);
  // A host's instances are ordered by a fence.
  const Kokkos::OpenMP host;
  kokkos_ext::order_after(host, host);
}

TEST_CASE("guarded: whatever waits, waits for delayed work", "[guarded]") {
  const DelayedWork delayed;
  const GuardedDevice exec;
  const Numbers t(exec, "t", {100});
  const auto cref = TensorRef<const double, 1, GuardedSpace>(t.cref());
  fill(exec, t.ref(), 2.0);
  CHECK(kernels::sum(exec, cref) == 200.0);
  fill(exec, t.ref(), std::nan(""));
  CHECK(kernels::count_non_finite(exec, cref) == 100);
  fill(exec, t.ref(), 3.0);
  CHECK(kokkos_ext::library_call(exec, "test", [&] { return t.data()[5]; }) == 3.0);
  fill(exec, t.ref(), 4.0);
  CHECK(exec.queue().waiting() == 1);
  Kokkos::fence("test");
  CHECK(exec.queue().waiting() == 0);
  fill(exec, t.ref(), 5.0);
  Kokkos::View<double*, Kokkos::HostSpace> host("host", 100);
  Kokkos::deep_copy(host, t.view());
  CHECK(host(50) == 5.0);
  {
    const Numbers short_lived(exec, "short-lived", {100});
    fill(exec, short_lived.ref(), 1.0);
    CHECK(exec.queue().waiting() == 1);
  }
  CHECK(exec.queue().waiting() == 0);
}

TEST_CASE("guarded: the end of the delay does all work", "[guarded]") {
  const GuardedDevice exec;
  const Numbers t(exec, "t", {100});
  {
    const DelayedWork delayed;
    fill(exec, t.ref(), 6.0);
    CHECK(exec.queue().waiting() == 1);
  }
  CHECK(exec.queue().waiting() == 0);
  CHECK(first_of(exec, t, true) == 6.0);
}
