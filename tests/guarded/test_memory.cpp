// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include <krama/core/random.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/testing/guarded/device.hpp>

#include <catch2/catch_all.hpp>
#include <numeric>
#include <vector>

using namespace krama;
using testing::GuardedDevice;
using testing::GuardedSpace;
using D = GuardedDevice::device_type;
using HostView = Kokkos::View<double*, Kokkos::HostSpace>;
using DeviceView = Kokkos::View<double*, GuardedSpace>;

static_assert(Device<D>);
static_assert(AccessibleFrom<GuardedSpace, GuardedDevice>);
static_assert(!AccessibleFrom<GuardedSpace, Kokkos::OpenMP>);
static_assert(!AccessibleFrom<Kokkos::HostSpace, GuardedDevice>);
static_assert(!kokkos_ext::is_host_space<GuardedDevice>);
static_assert(!std::is_convertible_v<DeviceView, HostView>);
static_assert(!std::is_same_v<DeviceView::host_mirror_type, DeviceView>);

TEST_CASE("guarded: allocations have labels, sizes and no first values", "[guarded]") {
  const GuardedDevice exec;
  const Tensor<double, 1, GuardedSpace> t(exec, "alpha", {1000});
  CHECK(t.label() == "alpha");
  for (const double v : download(exec, t.ref())) REQUIRE(std::isnan(v));
  const DeviceView zero("zero", 1000);
  CHECK(download(exec, TensorRef<double, 1, GuardedSpace>(zero.data(), {1000}))[999] == 0.0);
  CHECK_THROWS_AS((Tensor<double, 1, GuardedSpace>(exec, "too much", {std::int64_t{1} << 40})),
                  OutOfMemory);
}

TEST_CASE("guarded: memory is given back and used again", "[guarded]") {
  const GuardedDevice exec;
  const auto find = [](const auto& t) { return testing::guarded::Arena::get().find(t.data()); };
  for (int i = 0; i < 2000; ++i) {
    const Tensor<float, 1, GuardedSpace> a(exec, "a", {1 + 37 * i}), b(exec, "b", {4096});
    fill(exec, b.ref(), 1.0F);
    REQUIRE(find(a) != nullptr);
    REQUIRE(find(a) != find(b));
  }
  CHECK(testing::guarded::Arena::get().depth() == 0);
}

TEST_CASE("guarded: copies there and back, mirrors, resize", "[guarded]") {
  const GuardedDevice exec;
  std::vector<double> values(777);
  std::iota(values.begin(), values.end(), 1.0);
  const Tensor<double, 1, GuardedSpace> a(exec, "a", {777}), b(exec, "b", {777});
  upload(exec, a.ref(), std::span<const double>(values));
  copy(exec, b.ref(), a.ref());
  CHECK(download(exec, b.ref()) == values);

  DeviceView view("view", 10);
  auto mirror = Kokkos::create_mirror_view(view);
  static_assert(std::is_same_v<decltype(mirror)::memory_space, Kokkos::HostSpace>);
  for (std::size_t i = 0; i < 10; ++i) mirror(i) = static_cast<double>(i);
  Kokkos::deep_copy(view, mirror);
  Kokkos::resize(view, 20);
  const auto back = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, view);
  CHECK(back(9) == 9.0);
  CHECK(back(19) == 0.0);
  Kokkos::deep_copy(exec, view, 2.5);
  Kokkos::deep_copy(mirror, Kokkos::subview(view, std::make_pair(5, 15)));
  CHECK(mirror(7) == 2.5);
}

TEST_CASE("guarded: kernels of every kind", "[guarded]") {
  const GuardedDevice exec;
  const DeviceView x("x", 1000);
  Kokkos::parallel_for(
      "range", Kokkos::RangePolicy<GuardedDevice>(exec, 0, 1000),
      KOKKOS_LAMBDA(int i) { x(i) = i; });
  double sum = 0;
  Kokkos::parallel_reduce(
      "reduce", Kokkos::RangePolicy<GuardedDevice>(exec, 0, 1000),
      KOKKOS_LAMBDA(int i, double& s) { s += x(i); }, sum);
  CHECK(sum == 499500.0);

  const Kokkos::View<double, GuardedSpace> there("there");
  Kokkos::parallel_reduce(
      "reduce to the device", Kokkos::RangePolicy<GuardedDevice>(exec, 0, 1000),
      KOKKOS_LAMBDA(int i, double& s) { s += x(i); }, there);
  double here = 0;
  Kokkos::deep_copy(here, there);
  CHECK(here == 499500.0);

  const Kokkos::View<double**, GuardedSpace> m("m", 20, 30);
  static_assert(std::is_same_v<decltype(m)::array_layout, Kokkos::LayoutLeft>);
  Kokkos::parallel_for(
      "md", Kokkos::MDRangePolicy<GuardedDevice, Kokkos::Rank<2>>(exec, {0, 0}, {20, 30}),
      KOKKOS_LAMBDA(int i, int j) { m(i, j) = 100 * i + j; });
  const auto mh = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, m);
  CHECK(mh(19, 29) == 1929.0);

  using Policy = Kokkos::TeamPolicy<GuardedDevice>;
  const DeviceView rows("rows", 20);
  const auto policy = Policy(exec, 20, Kokkos::AUTO).set_scratch_size(0, Kokkos::PerTeam(1024));
  Kokkos::parallel_for(
      "team", policy, KOKKOS_LAMBDA(const Policy::member_type& team) {
        const int i = team.league_rank();
        double* scratch = static_cast<double*>(team.team_scratch(0).get_shmem(8 * 30));
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, 30),
                             [&](int j) { scratch[j] = m(i, j); });
        team.team_barrier();
        double s = 0;
        Kokkos::parallel_reduce(
            Kokkos::TeamThreadRange(team, 30), [&](int j, double& l) { l += scratch[j]; }, s);
        Kokkos::single(Kokkos::PerTeam(team), [&]() { rows(i) = s; });
      });
  const auto rh = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, rows);
  CHECK(rh(2) == 30 * 200 + 29 * 15);

  double total = 0;
  Kokkos::parallel_scan(
      "scan", Kokkos::RangePolicy<GuardedDevice>(exec, 0, 1000),
      KOKKOS_LAMBDA(int i, double& s, bool last) {
        s += 1;
        if (last) x(i) = s;
      },
      total);
  CHECK(total == 1000.0);
  CHECK(Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, x)(999) == 1000.0);
  CHECK(testing::guarded::Arena::get().depth() == 0);
}

TEST_CASE("guarded: a library call finds the memory open", "[guarded]") {
  const GuardedDevice exec;
  const Tensor<float, 1, GuardedSpace> t(exec, "t", {8});
  fill(exec, t.ref(), 3.0F);
  float* p = t.data();
  const float read = kokkos_ext::library_call(exec, "test", [&] {
    p[1] = 4.0F;
    return p[0];
  });
  CHECK(read == 3.0F);
  CHECK(download(exec, t.ref())[1] == 4.0F);
  CHECK(testing::guarded::Arena::get().depth() == 0);
}
