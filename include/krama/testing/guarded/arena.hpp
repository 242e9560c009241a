// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>

namespace krama::testing::guarded {

/// One allocation, readable in a signal handler: plain memory and atomics only.
struct Slot {
  std::atomic<std::uintptr_t> begin{0};  ///< 0: free
  std::atomic<std::uintptr_t> end{0};
  std::size_t header = 0;  ///< bytes before the user's data
  char label[96] = {};
};

/// Memory of a stand-in device: one range of addresses whose pages cannot be touched except while
/// somebody holds it open. New memory is filled with bytes 0xff (NaN in every floating-point type),
/// so that what a kernel reads without having written it shows. One for the process, never freed.
class Arena {
 public:
  static Arena& get() {
    static Arena* arena = new Arena;  // outlives whatever is destroyed after main
    return *arena;
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// \throws std::bad_alloc when the range or the table of labels is full.
  void* allocate(std::size_t bytes, std::size_t header, const char* label) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fail_at_ > 0 && --fail_at_ == 0) throw std::bad_alloc();
    const std::size_t length = (bytes / page_ + 1) * page_;
    Slot* slot = free_slot();
    const std::size_t at = first_fit(length);
    if (slot == nullptr || at + length > reserved) throw std::bad_alloc();
    char* p = base_ + at;
    protect(p, length, PROT_READ | PROT_WRITE);
    std::memset(p, 0xff, length);
    if (depth_ == 0) protect(p, length, PROT_NONE);
    blocks_[at] = {length, slot};
    std::strncpy(slot->label, label, sizeof(slot->label) - 1);
    slot->header = header;
    slot->end = reinterpret_cast<std::uintptr_t>(p) + bytes;
    slot->begin = reinterpret_cast<std::uintptr_t>(p);
    return p;
  }

  void deallocate(void* pointer) {
    if (pointer == nullptr) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto block = blocks_.find(static_cast<std::size_t>(static_cast<char*>(pointer) - base_));
    if (block == blocks_.end()) return;
    block->second.slot->begin = 0;
    // Closed even while the arena is open: a kernel that uses freed memory is caught.
    protect(static_cast<char*>(pointer), block->second.length, PROT_NONE);
    madvise(pointer, block->second.length, MADV_DONTNEED);
    blocks_.erase(block);
  }

  /// The n-th allocation from now on fails, and no other; 0: none.
  void fail_at(std::int64_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail_at_ = n;
  }

  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (depth_++ == 0) protect_all(PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--depth_ == 0) protect_all(PROT_NONE);
  }

  [[nodiscard]] bool holds(const void* pointer) const {
    const auto a = reinterpret_cast<std::uintptr_t>(pointer);
    const auto b = reinterpret_cast<std::uintptr_t>(base_);
    return a >= b && a - b < reserved;
  }
  /// The allocation that `pointer` lies in, or null. For signal handlers.
  [[nodiscard]] const Slot* find(const void* pointer) const {
    const auto a = reinterpret_cast<std::uintptr_t>(pointer);
    for (const Slot& s : *slots_) {
      const std::uintptr_t begin = s.begin;
      if (begin != 0 && a >= begin && a < s.end) return &s;
    }
    return nullptr;
  }
  /// `pointer` is where an allocation begins.
  [[nodiscard]] bool is_start(const void* pointer) const {
    const Slot* s = find(pointer);
    return s != nullptr && s->begin == reinterpret_cast<std::uintptr_t>(pointer);
  }
  [[nodiscard]] int depth() const { return depth_; }

 private:
  static constexpr std::size_t reserved = std::size_t{64} << 30;  // addresses, not memory
  static constexpr std::size_t max_allocations = 16384;
  struct Block {
    std::size_t length;
    Slot* slot;
  };

  Arena() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* p =
        mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(p);
  }

  Slot* free_slot() {
    for (Slot& s : *slots_) {
      if (s.begin == 0) return &s;
    }
    return nullptr;
  }
  std::size_t first_fit(std::size_t length) const {
    std::size_t at = 0;
    for (const auto& [begin, block] : blocks_) {
      if (begin - at >= length) return at;
      at = begin + block.length;
    }
    return at;
  }
  static void protect(char* p, std::size_t length, int how) {
    if (mprotect(p, length, how) != 0) throw std::bad_alloc();
  }
  /// Runs of blocks without a gap at a time; gaps stay closed.
  void protect_all(int how) {
    for (auto first = blocks_.begin(); first != blocks_.end();) {
      std::size_t end = first->first + first->second.length;
      auto next = std::next(first);
      for (; next != blocks_.end() && next->first == end; ++next) end += next->second.length;
      protect(base_ + first->first, end - first->first, how);
      first = next;
    }
  }

  std::mutex mutex_;
  std::int64_t fail_at_ = 0;
  std::size_t page_;
  char* base_ = nullptr;
  std::map<std::size_t, Block> blocks_;  ///< by offset
  std::unique_ptr<std::array<Slot, max_allocations>> slots_ =
      std::make_unique<std::array<Slot, max_allocations>>();
  std::atomic<int> depth_{0};
};

}  // namespace krama::testing::guarded
