#include "capture/prefaulted_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kineto_spyre::capture {
namespace {

size_t page_size() noexcept {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
// The kernel holds up the program's own mmap() while it does one step.
constexpr size_t kStep = size_t{1} << 20;
// have() grows by as much as is there already, within these.
constexpr size_t kLeastGrowth = size_t{16} << 10;
constexpr size_t kMostGrowth = size_t{256} << 10;

size_t page_down(size_t offset) noexcept { return offset - offset % page_size(); }
size_t page_up(size_t offset) noexcept { return page_down(offset + page_size() - 1); }

}  // namespace

PrefaultedRegion::PrefaultedRegion(PrefaultedRegion&& other) noexcept { *this = std::move(other); }

PrefaultedRegion& PrefaultedRegion::operator=(PrefaultedRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(ready_, other.ready_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

PrefaultedRegion::~PrefaultedRegion() { unmap(); }

bool PrefaultedRegion::map(size_t size, const Options& options) noexcept {
  if (size == 0) return true;
  const size_t huge = std::min(options.sure, size) / kHugePage * kHugePage;
  const size_t alignment = std::max({options.alignment, page_size(), huge != 0 ? kHugePage : size_t{1}});
  const size_t mapped = page_up(size) + (alignment > page_size() ? alignment : 0);
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = mapping;
  mapped_ = mapped;
  size_ = size;
  const auto at = reinterpret_cast<uintptr_t>(mapping);
  data_ = reinterpret_cast<uint8_t*>((at + alignment - 1) & ~(alignment - 1));
#ifdef MADV_HUGEPAGE
  if (huge != 0) madvise(data_, huge, MADV_HUGEPAGE);
#endif
#ifdef MADV_WIPEONFORK
  if (options.wiped_on_fork) madvise(mapping_, mapped_, MADV_WIPEONFORK);
#endif
  return true;
}

void PrefaultedRegion::grow(size_t bytes) noexcept {
  const size_t until = std::min(size_, std::max(bytes, ready_ + std::clamp(ready_, kLeastGrowth, kMostGrowth)));
#ifdef MADV_POPULATE_WRITE
  // Whether it can be done or not: a page that isn't ready comes when it is touched.
  const size_t from = page_down(ready_);
  madvise(data_ + from, page_up(until) - from, MADV_POPULATE_WRITE);
#endif
  ready_ = until;
}

// Without the thread sanitizer: an addition of nothing races with nobody, but only the processor knows.
__attribute__((no_sanitize("thread"))) void PrefaultedRegion::touch(size_t begin, size_t end) noexcept {
  const size_t last = page_up(std::min(end, size_));
  for (size_t step = page_down(begin); step < last; step += kStep) {
    const size_t bytes = std::min(kStep, last - step);
#ifdef MADV_POPULATE_WRITE
    if (madvise(data_ + step, bytes, MADV_POPULATE_WRITE) == 0) continue;
#endif
    for (size_t page = step; page < step + bytes; page += page_size()) {
      __atomic_fetch_add(data_ + page, 0, __ATOMIC_RELAXED);
    }
  }
}

void PrefaultedRegion::forget(size_t begin, size_t end) noexcept {
  const size_t first = page_up(begin);
  const size_t last = std::min(page_down(end), page_up(size_));
  if (first < last) madvise(data_ + first, last - first, MADV_DONTNEED);
}

void PrefaultedRegion::keep_on_fork() noexcept {
#ifdef MADV_KEEPONFORK
  if (mapped_ != 0) madvise(mapping_, mapped_, MADV_KEEPONFORK);
#endif
}

void PrefaultedRegion::unmap() noexcept {
  if (mapped_ != 0) munmap(mapping_, mapped_);
  data_ = nullptr;
  size_ = ready_ = mapped_ = 0;
}

bool SharedRegion::map_shared(size_t size, std::string* error) {
  Options options;
  options.wiped_on_fork = true;
  if (map(size, options)) return true;
  *error = std::strerror(errno);
  return false;
}

void SharedRegion::touch_ahead(size_t ahead) noexcept {
  const size_t used = this->used();
  // Takers may go on as fast as since the last call, and the helper may wake late: four times as far.
  const size_t until = std::min(size(), used + std::max(ahead, 4 * (used - last_used_)));
  last_used_ = used;
  const size_t from = std::max(touched_, used);
  if (from < until) touch(from, until);
  touched_ = std::max(touched_, until);
}

void SharedRegion::touch_first(size_t bytes) noexcept {
  const size_t until = std::min(size(), bytes);
  if (touched_ < until) touch(touched_, until);
  touched_ = std::max(touched_, until);
}

}  // namespace kineto_spyre::capture
