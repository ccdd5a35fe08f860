#include "trace/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace kineto_spyre::trace {
namespace {

// A step is as much as is there already, within these.
constexpr size_t kLeastStep = 16 << 10;
constexpr size_t kMostStep = 256 << 10;

}  // namespace

Pages::Pages(size_t bytes, size_t alignment, size_t sure) : size_(bytes) {
  if (bytes == 0) return;
  const size_t huge = std::min(sure, bytes) / kHuge * kHuge;
  if (huge != 0) alignment = std::max(alignment, kHuge);
  mapped_ = bytes + alignment;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapped_ = 0;
    throw std::bad_alloc();
  }
  const auto at = reinterpret_cast<uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::byte*>((at + alignment - 1) & ~(alignment - 1));
#ifdef MADV_HUGEPAGE
  if (huge != 0) madvise(data_, huge, MADV_HUGEPAGE);
#endif
}

Pages::Pages(Pages&& other) noexcept { *this = std::move(other); }

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(ready_, other.ready_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Pages::~Pages() {
  if (mapped_ != 0) munmap(mapping_, mapped_);
}

void Pages::get(size_t bytes) {
  const size_t until = std::min(size_, std::max(bytes, ready_ + std::clamp(ready_, kLeastStep, kMostStep)));
#ifdef MADV_POPULATE_WRITE
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = reinterpret_cast<uintptr_t>(data_ + ready_) & ~(page - 1);
  madvise(reinterpret_cast<void*>(from), reinterpret_cast<uintptr_t>(data_ + until) - from, MADV_POPULATE_WRITE);
#endif
  ready_ = until;
}

}  // namespace kineto_spyre::trace
