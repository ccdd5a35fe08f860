// A device's memory: a reserved address range of which the kernel backs only what is touched.
//
// The range is mapped once and never grows. Blocks are handed out best fit (of equally good ones the lowest address, so
// that the same program gets the same places), in multiples of a stick, and neighbours are joined when they come back.
// A large block that comes back gives its pages back too.
//
// One mutex. csrc/device keeps a caching allocator on top, so calls are rare.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace kineto_spyre::emulator {

class AddressSpace {
 public:
  // Throws std::runtime_error with a sentence if the system has no address space of that size.
  explicit AddressSpace(uint64_t bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Null if no free block is large enough.
  void* allocate(uint64_t bytes);
  // The bytes that were asked for, or -1 if nothing is allocated at that address.
  int64_t release(void* address);

  bool contains(const void* address, uint64_t bytes = 1) const;
  uint64_t total() const { return size_; }
  uint64_t free_bytes() const;
  uint64_t largest_free_block() const;
  bool empty() const;

 private:
  struct Block {
    uint64_t size;       // a multiple of a stick
    uint64_t requested;  // as asked for
  };

  void insert_free(uint64_t offset, uint64_t size);
  void erase_free(std::map<uint64_t, uint64_t>::iterator block);

  char* base_ = nullptr;
  uint64_t size_ = 0;
  mutable std::mutex mutex_;
  std::map<uint64_t, Block> used_;                        // by offset
  std::map<uint64_t, uint64_t> free_;                     // offset -> size
  std::set<std::pair<uint64_t, uint64_t>> free_by_size_;  // (size, offset)
  uint64_t free_total_ = 0;
};

}  // namespace kineto_spyre::emulator
