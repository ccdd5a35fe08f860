#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "spyre_emulator/cost_model.h"

namespace kineto_spyre::emulator {
namespace {

constexpr uint64_t kGiveBackBytes = 1u << 20;

uint64_t sticks(uint64_t bytes) {
  const uint64_t stick = model::kStickBytes;
  return bytes == 0 ? stick : (bytes + stick - 1) / stick * stick;
}

}  // namespace

AddressSpace::AddressSpace(uint64_t bytes) : size_(bytes / model::kStickBytes * model::kStickBytes) {
  void* base = size_ == 0
                   ? MAP_FAILED
                   : mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw std::runtime_error("no address space of " + std::to_string(bytes) + " bytes for a device's memory (" +
                             (size_ == 0 ? "too small" : std::strerror(errno)) + "); pass another memory_bytes");
  }
  base_ = static_cast<char*>(base);
  insert_free(0, size_);
}

AddressSpace::~AddressSpace() { munmap(base_, size_); }

void* AddressSpace::allocate(uint64_t bytes) {
  if (bytes > size_) return nullptr;
  const uint64_t size = sticks(bytes);
  std::lock_guard lock(mutex_);
  const auto fit = free_by_size_.lower_bound({size, 0});
  if (fit == free_by_size_.end()) return nullptr;
  const auto [free_size, offset] = *fit;
  erase_free(free_.find(offset));
  if (free_size > size) insert_free(offset + size, free_size - size);
  used_.emplace(offset, Block{size, bytes});
  return base_ + offset;
}

int64_t AddressSpace::release(void* address) {
  if (!contains(address)) return -1;
  const auto at = static_cast<uint64_t>(static_cast<char*>(address) - base_);
  std::lock_guard lock(mutex_);
  const auto found = used_.find(at);
  if (found == used_.end()) return -1;
  const Block block = found->second;
  used_.erase(found);
  if (block.size >= kGiveBackBytes) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t first = (at + page - 1) / page * page;
    const uint64_t last = (at + block.size) / page * page;
    if (last > first) madvise(base_ + first, last - first, MADV_DONTNEED);
  }
  uint64_t offset = at, size = block.size;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    erase_free(next++);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      erase_free(before);
    }
  }
  insert_free(offset, size);
  return static_cast<int64_t>(block.requested);
}

bool AddressSpace::contains(const void* address, uint64_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto base = reinterpret_cast<uintptr_t>(base_);
  return at >= base && bytes <= size_ && at - base <= size_ - bytes;
}

uint64_t AddressSpace::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_total_;
}

uint64_t AddressSpace::largest_free_block() const {
  std::lock_guard lock(mutex_);
  return free_by_size_.empty() ? 0 : free_by_size_.rbegin()->first;
}

bool AddressSpace::empty() const {
  std::lock_guard lock(mutex_);
  return used_.empty();
}

void AddressSpace::insert_free(uint64_t offset, uint64_t size) {
  free_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
  free_total_ += size;
}

void AddressSpace::erase_free(std::map<uint64_t, uint64_t>::iterator block) {
  free_by_size_.erase({block->second, block->first});
  free_total_ -= block->second;
  free_.erase(block);
}

}  // namespace kineto_spyre::emulator
