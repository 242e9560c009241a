// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/config.hpp>
#include <krama/core/dtype.hpp>
#include <krama/core/error.hpp>

#if KRAMA_HAS_ONEDNN
#include <Kokkos_Core.hpp>
#include <atomic>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <type_traits>
#include <vector>

/// What the doors to oneDNN share: owning handles, an engine with a stream, and one cache of
/// primitives per host thread (oneDNN ties a primitive's scratch memory to the thread that made it),
/// released when Kokkos ends.
namespace krama::kernels::detail {

inline void dnnl_check(dnnl_status_t status, const char* what) {
  KRAMA_EXPECTS(status == dnnl_success, "oneDNN: {} failed: {}", what, dnnl_status2str(status));
}

template <class Handle, dnnl_status_t (*Destroy)(Handle)>
struct DnnlDelete {
  void operator()(Handle handle) const { Destroy(handle); }
};
template <class Handle, dnnl_status_t (*Destroy)(Handle)>
using DnnlHandle = std::unique_ptr<std::remove_pointer_t<Handle>, DnnlDelete<Handle, Destroy>>;

using DnnlDesc = DnnlHandle<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using DnnlMemory = DnnlHandle<dnnl_memory_t, dnnl_memory_destroy>;
using DnnlAttr = DnnlHandle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using DnnlPostOps = DnnlHandle<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using DnnlPd = DnnlHandle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using DnnlPrimitive = DnnlHandle<dnnl_primitive_t, dnnl_primitive_destroy>;

template <class T>
inline constexpr dnnl_data_type_t dnnl_type = std::is_same_v<T, float>  ? dnnl_f32
                                              : std::is_same_v<T, bf16> ? dnnl_bf16
                                                                        : dnnl_f16;

/// The processor as an engine, and a stream on it. Making things throws Error with oneDNN's status.
class DnnlEngine {
 public:
  DnnlEngine() {
    dnnl_engine_t engine = nullptr;
    dnnl_check(dnnl_engine_create(&engine, dnnl_cpu, 0), "making a CPU engine");
    engine_.reset(engine);
    dnnl_stream_t stream = nullptr;
    dnnl_check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "making a stream");
    stream_.reset(stream);
  }
  [[nodiscard]] dnnl_engine_t get() const { return engine_.get(); }
  [[nodiscard]] dnnl_stream_t stream() const { return stream_.get(); }

  /// A memory object without memory: addresses are set before each run.
  [[nodiscard]] DnnlMemory memory(const_dnnl_memory_desc_t d) const {
    dnnl_memory_t m = nullptr;
    dnnl_check(dnnl_memory_create(&m, d, engine_.get(), DNNL_MEMORY_NONE),
               "making a memory object");
    return DnnlMemory(m);
  }
  [[nodiscard]] static DnnlPrimitive primitive(const DnnlPd& pd, const char* what) {
    dnnl_primitive_t p = nullptr;
    dnnl_check(dnnl_primitive_create(&p, pd.get()), what);
    return DnnlPrimitive(p);
  }
  /// Attributes: f32 is computed in f32, whatever ONEDNN_DEFAULT_FPMATH_MODE says.
  [[nodiscard]] static DnnlAttr strict_attributes() {
    dnnl_primitive_attr_t raw = nullptr;
    dnnl_check(dnnl_primitive_attr_create(&raw), "making attributes");
    DnnlAttr attr(raw);
    dnnl_check(dnnl_primitive_attr_set_fpmath_mode(raw, dnnl_fpmath_mode_strict),
               "setting the mode");
    return attr;
  }
  [[nodiscard]] static DnnlPostOps post_ops() {
    dnnl_post_ops_t raw = nullptr;
    dnnl_check(dnnl_post_ops_create(&raw), "making post-ops");
    return DnnlPostOps(raw);
  }

 private:
  DnnlHandle<dnnl_engine_t, dnnl_engine_destroy> engine_;
  DnnlHandle<dnnl_stream_t, dnnl_stream_destroy> stream_;
};

/// Owns a `Cache` for each thread that asked; emptied by a hook of Kokkos::finalize.
template <class Cache>
class DnnlCaches {
 public:
  static Cache& of_this_thread() {
    struct Mine {
      Cache* cache = nullptr;
      std::uint64_t generation = 0;
    };
    thread_local Mine mine;
    DnnlCaches& all = instance();
    if (mine.generation != all.generation_.load(std::memory_order_acquire)) [[unlikely]] {
      const std::lock_guard lock(all.mutex_);
      if (all.caches_.empty()) Kokkos::push_finalize_hook([] { instance().clear(); });
      mine.cache = all.caches_.emplace_back(std::make_unique<Cache>()).get();
      mine.generation = all.generation_.load(std::memory_order_relaxed);
    }
    return *mine.cache;
  }

 private:
  static DnnlCaches& instance() {
    static DnnlCaches caches;
    return caches;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    caches_.clear();
    generation_.fetch_add(1, std::memory_order_release);
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Cache>> caches_;
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace krama::kernels::detail
#endif
