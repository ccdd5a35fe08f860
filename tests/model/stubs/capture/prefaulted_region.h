// In place of csrc/capture/prefaulted_region.h, for the model checker: a few zeroed bytes for mapped memory, and the
// same take().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kineto_spyre::capture {

class SharedRegion {
 public:
  static constexpr size_t kEnd = SIZE_MAX;

  void use(void* memory, size_t size) {
    data_ = static_cast<uint8_t*>(memory);
    size_ = size;
  }
  size_t take(size_t bytes) noexcept {
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > size_ - used) return kEnd;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed, std::memory_order_relaxed));
    return used;
  }
  size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  size_t touched() const noexcept { return 0; }
  uint8_t* data() const noexcept { return data_; }
  bool contains(const void* address) const noexcept {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(data_) < size_;
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::atomic<size_t> used_{0};
};

}  // namespace kineto_spyre::capture
