// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <map>
#include <memory>
#include <mutex>

#include <krama/kokkos_ext/native.hpp>

namespace krama::kokkos_ext {

/// One `Resource` (a library's handle) for each instance of `E`, made from the instance when it is
/// first asked for, released when Kokkos ends, before its devices do. An instance that takes over the
/// stream of one that is gone finds the same resource: nobody else can use it.
///
/// Any thread may ask; a resource is used by one thread at a time, as its instance is.
template <ExecutionSpace E, class Resource>
class PerInstance {
 public:
  static Resource& of(const E& exec) {
    PerInstance& all = instance();
    const std::lock_guard lock(all.mutex_);
    auto& slot = all.resources_[key_of(exec)];
    if (slot == nullptr) [[unlikely]] {
      if (!all.hooked_) {
        Kokkos::push_finalize_hook([] { instance().clear(); });
        all.hooked_ = true;
      }
      slot = std::make_unique<Resource>(exec);
    }
    return *slot;
  }

 private:
  static PerInstance& instance() {
    static PerInstance all;
    return all;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    resources_.clear();
    hooked_ = false;
  }

  std::mutex mutex_;
  std::map<InstanceKey, std::unique_ptr<Resource>> resources_;
  bool hooked_ = false;
};

}  // namespace krama::kokkos_ext
