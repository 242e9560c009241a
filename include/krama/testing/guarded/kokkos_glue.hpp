// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

/// The stand-in device as Kokkos sees it. Written against Kokkos 5.2 with the OpenMP back end; this
/// is the only header of Krama that leans on Kokkos' inside for it. Of that inside it uses
/// - KOKKOS_IMPL_HOST_INACCESSIBLE_SHARED_ALLOCATION_SPECIALIZATION, Kokkos_SharedAlloc_timpl.hpp,
///   Impl::SharedAllocationHeader: tracked allocations whose header the host cannot read;
/// - Impl::MemorySpaceAccess, Impl::DeepCopy, Impl::ZeroMemset, hostspace_parallel_deepcopy;
/// - Impl::RuntimeCheck(BasicView)MemoryAccessViolation: on a host build Kokkos asks whether the
///   *host* may read a View inside kernels, and would abort; the pages are the better judge;
/// - Impl::ParallelFor, ParallelReduce, ParallelScan, ParallelScanWithTotal, TeamPolicyInternal of
///   OpenMP, from which the device's derive;
/// - Experimental::UniqueToken, Experimental::Impl::impl_partition_space,
///   Impl::ThreadAndVectorNestLevel, Tools::Experimental::DeviceTypeTraits;
/// - Impl::ExecSpaceManager, ExecSpaceBase: the global Kokkos::fence() reaches the device.

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#ifndef KOKKOS_ENABLE_OPENMP
#error "krama/testing/guarded needs a Kokkos with the OpenMP back end"
#endif
#if KOKKOS_VERSION / 100 != 502
#error "krama/testing/guarded is written against the inside of Kokkos 5.2"
#endif

#define KOKKOS_IMPL_PUBLIC_INCLUDE
#include <impl/Kokkos_ExecSpaceManager.hpp>
#include <impl/Kokkos_SharedAlloc_timpl.hpp>
#undef KOKKOS_IMPL_PUBLIC_INCLUDE

#include <krama/testing/guarded/queue.hpp>

namespace Kokkos {

class GuardedDevice;

/// Memory that only kernels, copies and library calls of GuardedDevice may touch.
class GuardedSpace {
 public:
  using memory_space = GuardedSpace;
  using execution_space = GuardedDevice;
  using device_type = Device<execution_space, memory_space>;
  using size_type = std::size_t;
  using index_type = std::make_signed_t<size_type>;

  static constexpr const char* name() { return "GuardedSpace"; }

  void* allocate(std::size_t bytes) const { return allocate("unlabelled", bytes); }
  void* allocate(const char* label, std::size_t bytes, std::size_t logical = 0) const {
    const std::size_t header = sizeof(Impl::SharedAllocationHeader);
    void* p =
        krama::testing::guarded::Arena::get().allocate(bytes, bytes < header ? 0 : header, label);
    if (Profiling::profileLibraryLoaded()) {
      Profiling::allocateData(Tools::make_space_handle(name()), label, p,
                              logical > 0 ? logical : bytes);
    }
    return p;
  }
  template <class Exec>
  void* allocate(const Exec& /*exec*/, std::size_t bytes) const {
    return allocate(bytes);
  }
  template <class Exec>
  void* allocate(const Exec& /*exec*/, const char* label, std::size_t bytes,
                 std::size_t logical = 0) const {
    return allocate(label, bytes, logical);
  }
  void deallocate(void* p, std::size_t bytes) const { deallocate("unlabelled", p, bytes); }
  /// Waits for all work of the device, as CUDA's does: something may still use the memory.
  void deallocate(const char* label, void* p, std::size_t bytes, std::size_t logical = 0) const {
    krama::testing::guarded::Queue::run_all();
    if (Profiling::profileLibraryLoaded()) {
      Profiling::deallocateData(Tools::make_space_handle(name()), label, p,
                                logical > 0 ? logical : bytes);
    }
    krama::testing::guarded::Arena::get().deallocate(p);
  }
};

/// A device made of the host's OpenMP threads, with memory of its own. Its default layout is that of
/// GPUs. Each partition of it is an instance with an order of its own.
class GuardedDevice : public OpenMP {
 public:
  using execution_space = GuardedDevice;
  using memory_space = GuardedSpace;
  using device_type = Device<execution_space, memory_space>;
  using array_layout = LayoutLeft;
  using size_type = GuardedSpace::size_type;
  using index_type = GuardedSpace::index_type;

  GuardedDevice() : queue_(&krama::testing::guarded::Queue::main()) {}
  GuardedDevice(const OpenMP& threads, krama::testing::guarded::Queue& queue)
      : OpenMP(threads), queue_(&queue) {}

  static constexpr const char* name() noexcept { return "GuardedDevice"; }
  [[nodiscard]] std::uint32_t impl_instance_id() const noexcept { return 1 + queue_->number(); }
  [[nodiscard]] krama::testing::guarded::Queue& queue() const { return *queue_; }

  void fence(const std::string& why = "GuardedDevice::fence") const {
    queue_->run();
    OpenMP::fence(why);
  }
  static void impl_static_fence(const std::string& /*why*/) {
    krama::testing::guarded::Queue::run_all();
  }

 private:
  friend bool operator==(const GuardedDevice& a, const GuardedDevice& b) {
    return a.queue_ == b.queue_;
  }
  friend bool operator!=(const GuardedDevice& a, const GuardedDevice& b) { return !(a == b); }

  krama::testing::guarded::Queue* queue_;
};

template <>
struct Tools::Experimental::DeviceTypeTraits<GuardedDevice> {
  static constexpr DeviceType id = DeviceType::OpenMP;
  static std::uint32_t device_id(const GuardedDevice& /*exec*/) { return 0; }
};

namespace Impl {

struct GuardedBackEnd : ExecSpaceBase {
  void initialize(const InitializationSettings& /*settings*/) override {}
  void finalize() override {}
  void static_fence(const std::string& why) override { GuardedDevice::impl_static_fence(why); }
  void print_configuration(std::ostream& /*os*/, bool /*verbose*/) override {}
};
inline const bool guarded_device_is_known = [] {
  ExecSpaceManager::get_instance().register_space_factory("190_GuardedDevice",
                                                          std::make_unique<GuardedBackEnd>());
  return true;
}();

// What is submitted to Kokkos directly comes after what waits in the instance's queue.
struct GuardedScope {
  explicit GuardedScope(const GuardedDevice& exec) { exec.queue().run(); }
  krama::testing::guarded::Open open;
};

template <>
struct MemorySpaceAccess<HostSpace, GuardedSpace> {
  enum : bool { assignable = false };
  enum : bool { accessible = false };
  enum : bool { deepcopy = true };
};
template <>
struct MemorySpaceAccess<GuardedSpace, HostSpace> {
  enum : bool { assignable = false };
  enum : bool { accessible = false };
  enum : bool { deepcopy = true };
};
template <>
struct MemorySpaceAccess<GuardedSpace, OpenMP::scratch_memory_space> {
  enum : bool { assignable = false };
  enum : bool { accessible = true };
  enum : bool { deepcopy = false };
};
template <>
struct RuntimeCheckMemoryAccessViolation<GuardedSpace, DefaultHostExecutionSpace, false> {
  explicit RuntimeCheckMemoryAccessViolation(const char*) {}
};
template <>
struct RuntimeCheckBasicViewMemoryAccessViolation<GuardedSpace, DefaultHostExecutionSpace, false> {
  explicit RuntimeCheckBasicViewMemoryAccessViolation(const SharedAllocationTracker&) {}
};

struct GuardedCopy {
  GuardedCopy(void* to, const void* from, std::size_t n) {
    krama::testing::guarded::Queue::run_all();
    move(to, from, n);
  }
  template <class Exec>
  GuardedCopy(const Exec& exec, void* to, const void* from, std::size_t n) {
    // The header of a new allocation: no work can depend on it.
    const bool header =
        n == sizeof(SharedAllocationHeader) && krama::testing::guarded::Arena::get().is_start(to);
    if constexpr (std::is_same_v<Exec, GuardedDevice>) {
      if (!header) exec.queue().run();
    } else {
      if (!header) exec.fence("GuardedSpace: before a copy");
    }
    move(to, from, n);
  }
  static void move(void* to, const void* from, std::size_t n) {
    const krama::testing::guarded::Open open;
    hostspace_parallel_deepcopy(to, from, static_cast<std::ptrdiff_t>(n));
  }
};
template <class Exec>
struct DeepCopy<GuardedSpace, HostSpace, Exec> : GuardedCopy {
  using GuardedCopy::GuardedCopy;
};
template <class Exec>
struct DeepCopy<HostSpace, GuardedSpace, Exec> : GuardedCopy {
  using GuardedCopy::GuardedCopy;
};
template <class Exec>
struct DeepCopy<GuardedSpace, GuardedSpace, Exec> : GuardedCopy {
  using GuardedCopy::GuardedCopy;
};
template <>
struct ZeroMemset<GuardedDevice> {
  ZeroMemset(const GuardedDevice& exec, void* to, std::size_t n) {
    const GuardedScope open(exec);
    std::memset(to, 0, n);
  }
};

template <class... P>
class TeamPolicyInternal<GuardedDevice, P...> : public TeamPolicyInternal<OpenMP, P...> {
  using Base = TeamPolicyInternal<OpenMP, P...>;

 public:
  using execution_policy = TeamPolicyInternal;
  using Base::Base;
  template <class... Q>
  TeamPolicyInternal(const TeamPolicyInternal<GuardedDevice, Q...>& other)
      : Base(static_cast<const TeamPolicyInternal<OpenMP, Q...>&>(other)) {}

  TeamPolicyInternal& set_chunk_size(typename Base::traits::index_type size) {
    Base::set_chunk_size(size);
    return *this;
  }
  template <class... Sizes>
  TeamPolicyInternal& set_scratch_size(const int& level, const Sizes&... sizes) {
    Base::set_scratch_size(level, sizes...);
    return *this;
  }
};

/// OpenMP's kernels take results in host memory only; while the kernel runs the device's is that.
template <class View>
struct GuardedResult {
  using memory_space = HostSpace;
  const View& view;
  auto data() const { return view.data(); }
};

/// `Base` with the memory open while it runs.
template <class Base>
class GuardedKernel : public Base {
 public:
  template <class Functor, class Policy>
  GuardedKernel(const Functor& f, const Policy& p) : Base(f, p), exec_(p.space()) {}
  template <class Functor, class Policy, class View>
  GuardedKernel(const Functor& f, const Policy& p, const View& result)
      : Base(f, p, GuardedResult<View>{result}), exec_(p.space()) {}
  void execute() const {
    const GuardedScope open(exec_);
    Base::execute();
  }

 private:
  GuardedDevice exec_;
};

template <class F, class... T>
class ParallelFor<F, RangePolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelFor<F, RangePolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelFor<F, RangePolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class... T>
class ParallelFor<F, MDRangePolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelFor<F, MDRangePolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelFor<F, MDRangePolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class... T>
class ParallelFor<F, TeamPolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelFor<F, TeamPolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelFor<F, TeamPolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class... T>
class ParallelReduce<F, RangePolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelReduce<F, RangePolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelReduce<F, RangePolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class... T>
class ParallelReduce<F, MDRangePolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelReduce<F, MDRangePolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelReduce<F, MDRangePolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class... T>
class ParallelReduce<F, TeamPolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelReduce<F, TeamPolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelReduce<F, TeamPolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class... T>
class ParallelScan<F, RangePolicy<T...>, GuardedDevice>
    : public GuardedKernel<ParallelScan<F, RangePolicy<T...>, OpenMP>> {
 public:
  using GuardedKernel<ParallelScan<F, RangePolicy<T...>, OpenMP>>::GuardedKernel;
};
template <class F, class R, class... T>
class ParallelScanWithTotal<F, RangePolicy<T...>, R, GuardedDevice>
    : public GuardedKernel<ParallelScanWithTotal<F, RangePolicy<T...>, R, OpenMP>> {
 public:
  using GuardedKernel<ParallelScanWithTotal<F, RangePolicy<T...>, R, OpenMP>>::GuardedKernel;
};

template <class Rank, TeamMDRangeThreadAndVector Both>
struct ThreadAndVectorNestLevel<Rank, GuardedDevice, Both> : HostBasedNestLevel<Rank, Both> {};

}  // namespace Impl

namespace Experimental {

template <>
class UniqueToken<GuardedDevice, UniqueTokenScope::Instance>
    : public UniqueToken<OpenMP, UniqueTokenScope::Instance> {
 public:
  using execution_space = GuardedDevice;
  using UniqueToken<OpenMP, UniqueTokenScope::Instance>::UniqueToken;
};
template <>
class UniqueToken<GuardedDevice, UniqueTokenScope::Global>
    : public UniqueToken<OpenMP, UniqueTokenScope::Global> {
 public:
  using execution_space = GuardedDevice;
  using UniqueToken<OpenMP, UniqueTokenScope::Global>::UniqueToken;
};

namespace Impl {
template <class T>
std::vector<GuardedDevice> partition_guarded(const GuardedDevice& base,
                                             const std::vector<T>& weights) {
  std::vector<GuardedDevice> parts;
  for (const OpenMP& threads : impl_partition_space(static_cast<const OpenMP&>(base), weights)) {
    parts.emplace_back(threads, krama::testing::guarded::Queue::make());
  }
  return parts;
}
// Kokkos finds specialisations of its own function only, not overloads.
template <>
inline std::vector<GuardedDevice> impl_partition_space(const GuardedDevice& base,
                                                       const std::vector<int>& weights) {
  return partition_guarded(base, weights);
}
template <>
inline std::vector<GuardedDevice> impl_partition_space(const GuardedDevice& base,
                                                       const std::vector<double>& weights) {
  return partition_guarded(base, weights);
}
}  // namespace Impl

}  // namespace Experimental
}  // namespace Kokkos

KOKKOS_IMPL_HOST_INACCESSIBLE_SHARED_ALLOCATION_SPECIALIZATION(Kokkos::GuardedSpace);
