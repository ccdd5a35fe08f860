// In place of csrc/capture/prefaulted_region.h, for the model checker: a few zeroed bytes for mapped memory, and the same take().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kineto_spyre::capture {

class PrefaultedRegion {
 public:
  static constexpr size_t kEnd = SIZE_MAX;

  void use(void* memory, size_t size, size_t unit) {
    data_ = static_cast<uint8_t*>(memory);
    size_ = size;
    unit_ = unit;
  }
  size_t take() noexcept {
    if (used_.load(std::memory_order_relaxed) + unit_ > size_) return kEnd;
    const size_t offset = used_.fetch_add(unit_, std::memory_order_relaxed);
    return offset + unit_ <= size_ ? offset : kEnd;
  }
  uint8_t* data() const noexcept { return data_; }
  bool contains(const void* address) const noexcept {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(data_) < size_;
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t unit_ = 1;
  std::atomic<size_t> used_{0};
};

}  // namespace kineto_spyre::capture
