#include "capture/prefaulted_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kineto_spyre::capture {
namespace {

size_t page_size() noexcept {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
constexpr size_t kStep = size_t{1} << 20;

size_t page_down(size_t offset) noexcept { return offset - offset % page_size(); }
size_t page_up(size_t offset) noexcept { return page_down(offset + page_size() - 1); }

}  // namespace

PrefaultedRegion::~PrefaultedRegion() { unmap(); }

bool PrefaultedRegion::map(size_t size, size_t unit, std::string* error) {
  void* address =
      mmap(nullptr, page_up(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    *error = "The profiler could not reserve " + std::to_string(size >> 20) + " MiB for its records (" +
             std::strerror(errno) + "): set KINETO_SPYRE_BUFFER_MB to less.";
    return false;
  }
  data_ = static_cast<uint8_t*>(address);
  size_ = size;
  unit_ = unit;
#ifdef MADV_WIPEONFORK
  madvise(data_, page_up(size_), MADV_WIPEONFORK);
#endif
  return true;
}

size_t PrefaultedRegion::used() const noexcept {
  const size_t whole_units = size_ - size_ % unit_;
  return std::min(used_.load(std::memory_order_relaxed), whole_units);
}

void PrefaultedRegion::touch_ahead(size_t ahead) noexcept {
  const size_t used = this->used();
  // Takers may go on as fast as since the last call, and the helper may wake late: four times as far.
  const size_t until = std::min(size_, used + std::max(ahead, 4 * (used - last_used_)));
  last_used_ = used;
  const size_t from = std::max(touched_, used);
  if (from < until) touch(from, until);
  touched_ = std::max(touched_, until);
}

void PrefaultedRegion::touch_first(size_t bytes) noexcept {
  const size_t until = std::min(size_, bytes);
  if (touched_ < until) touch(touched_, until);
  touched_ = std::max(touched_, until);
}

// Without the thread sanitizer: an addition of nothing races with nobody, but only the processor knows.
__attribute__((no_sanitize("thread"))) void PrefaultedRegion::touch(size_t begin, size_t end) noexcept {
  const size_t last = page_up(end);
  // In steps, for the kernel holds up the program's own mmap() during each.
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
  if (data_ != nullptr) madvise(data_, page_up(size_), MADV_KEEPONFORK);
#endif
}

void PrefaultedRegion::unmap() noexcept {
  if (data_ != nullptr) munmap(data_, page_up(size_));
  data_ = nullptr;
}

}  // namespace kineto_spyre::capture
