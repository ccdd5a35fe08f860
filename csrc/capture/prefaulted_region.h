// Address space for the largest case, taken at once and turned into memory as it is needed.
//
//    data()                ready                                  size()
//    |#####################|......................................|
//     in memory, zeroed      address space only
//
// A page that is touched for the first time costs a fault, on the thread that touches it: more than all else that is
// done to what lies in it. So whoever knows what will be needed has the kernel put pages behind the addresses before,
// many in one call: touch(), or have() for what is written from front to back. Where pages are not ready they come when
// they are touched: slower, never wrong.
//
// SharedRegion is one that many threads take pieces of, each by one atomic addition; a helper thread keeps memory ready
// ahead of them. There is no other failure than the end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kineto_spyre::capture {

class PrefaultedRegion {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;
  struct Options {
    size_t alignment = 1;        // of data(); a power of two
    size_t sure = 0;             // so many bytes will be written for certain: they may have huge pages
    bool wiped_on_fork = false;  // a child process that is forked meanwhile sees zeroes, at no cost to either
  };

  PrefaultedRegion() = default;
  PrefaultedRegion(PrefaultedRegion&& other) noexcept;
  PrefaultedRegion& operator=(PrefaultedRegion&& other) noexcept;
  ~PrefaultedRegion();

  // Takes address space for `size` zeroed bytes. False if it can't be had (errno says why). Once per object.
  bool map(size_t size, const Options& options) noexcept;

  uint8_t* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  bool contains(const void* address) const noexcept {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(data_) < size_;
  }

  // Has the pages of the first `bytes` ready, and some more: half as much again at first, 256 KiB later. One thread.
  void have(size_t bytes) noexcept {
    if (bytes > ready_) grow(bytes);
  }
  size_t ready() const noexcept { return ready_; }  // by have()

  // Puts memory behind [begin, end). Any thread, beside any writer.
  void touch(size_t begin, size_t end) noexcept;
  // Gives the whole pages within [begin, end) back; the addresses stay and read as zero.
  void forget(size_t begin, size_t end) noexcept;
  // From now on a forked child inherits the contents.
  void keep_on_fork() noexcept;
  void unmap() noexcept;

 private:
  void grow(size_t bytes) noexcept;

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t ready_ = 0;
  void* mapping_ = nullptr;  // what data_ lies in
  size_t mapped_ = 0;
};

class SharedRegion : public PrefaultedRegion {
 public:
  // As map(), wiped on fork. False, with a sentence in *error.
  bool map_shared(size_t size, std::string* error);

  // The offset of the next `bytes`, or kEnd. A piece that doesn't fit is not taken, but smaller ones may be.
  static constexpr size_t kEnd = SIZE_MAX;
  size_t take(size_t bytes) noexcept {
    // Relaxed: the offset alone is agreed upon; nobody has written to the memory behind it.
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > size() - used) return kEnd;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed, std::memory_order_relaxed));
    return used;
  }
  size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

  // The helper's: memory behind the next `ahead` bytes, or more if takers were fast since the last call.
  void touch_ahead(size_t ahead) noexcept;
  // The helper's: memory behind the first `bytes`.
  void touch_first(size_t bytes) noexcept;
  size_t touched() const noexcept { return touched_; }

 private:
  size_t touched_ = 0;    // by the helper only, as is the next one
  size_t last_used_ = 0;  // at the last touch_ahead()
  alignas(64) std::atomic<size_t> used_{0};
};

}  // namespace kineto_spyre::capture
