// Memory straight from the system, for arrays that are written once from front to back.
//
// A page that is touched for the first time costs a fault, which for items of 32 bytes is more than all that is done to
// them. So address space for the largest case is taken first, and its pages are had in steps, many in one call.
#pragma once

#include <cstddef>

namespace kineto_spyre::trace {

class Pages {
 public:
  Pages() = default;
  static constexpr size_t kHuge = 2 << 20;

  // `bytes` of zeroes, at a multiple of `alignment` (a power of two). Takes address space only. Of the first `sure`
  // bytes it is known that they will be written. Throws std::bad_alloc.
  Pages(size_t bytes, size_t alignment, size_t sure = 0);
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Has the pages of the first `bytes` ready, and some more. Without effect where the system can't: they come when they
  // are touched.
  void have(size_t bytes) {
    if (bytes > ready_) get(bytes);
  }
  size_t ready() const { return ready_; }

 private:
  void get(size_t bytes);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t ready_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace kineto_spyre::trace
