// Address space for a whole session, taken at once and turned into memory as it is needed.
//
//    data()                used()                 touched()                     size()
//    |#####################|......................|                              |
//     handed out            in memory, waiting      address space only
//
// take() hands out the next stretch by one atomic addition. Ahead of it touch_ahead(), called by a helper thread, has
// the kernel put zeroed pages behind the addresses, so that whoever takes a stretch meets no page fault. If takers run
// ahead of the helper they fault their pages in themselves: slower, never wrong. There is no other failure than the
// end.
//
// In a child process that is forked meanwhile the memory reads as zero (and costs neither process anything).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kineto_spyre::capture {

class PrefaultedRegion {
 public:
  PrefaultedRegion() = default;
  PrefaultedRegion(const PrefaultedRegion&) = delete;
  PrefaultedRegion& operator=(const PrefaultedRegion&) = delete;
  ~PrefaultedRegion();

  // False, with a sentence in *error, if the address space can't be had. unit: what one take() hands out.
  bool map(size_t size, size_t unit, std::string* error);

  // The offset of the next unit, or kEnd.
  static constexpr size_t kEnd = SIZE_MAX;
  size_t take() noexcept {
    // Relaxed: the offset alone is agreed upon; nobody has written to the memory behind it.
    if (used_.load(std::memory_order_relaxed) + unit_ > size_) return kEnd;
    const size_t offset = used_.fetch_add(unit_, std::memory_order_relaxed);
    return offset + unit_ <= size_ ? offset : kEnd;
  }

  // Puts memory behind the next `ahead` bytes, or more if takers were fast since the last call. One thread at a time.
  void touch_ahead(size_t ahead) noexcept;
  // Puts memory behind the first `bytes`.
  void touch_first(size_t bytes) noexcept;

  uint8_t* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  size_t used() const noexcept;
  size_t touched() const noexcept { return touched_; }  // for the helper
  bool contains(const void* address) const noexcept {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(data_) < size_;
  }

  // Gives the whole pages within [begin, end) back; the addresses stay and read as zero.
  void forget(size_t begin, size_t end) noexcept;
  // From now on a forked child inherits the contents.
  void keep_on_fork() noexcept;
  void unmap() noexcept;

 private:
  void touch(size_t begin, size_t end) noexcept;

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t unit_ = 1;
  size_t touched_ = 0;    // by the helper only, as are the next two
  size_t last_used_ = 0;  // at the last touch_ahead
  alignas(64) std::atomic<size_t> used_{0};
};

}  // namespace kineto_spyre::capture
