#include "device/allocator.h"

#include <c10/util/Exception.h>
#include <c10/util/flat_hash_map.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "device/runtime.h"

namespace kineto_spyre::device {

constinit thread_local int8_t kernel_device = -1;

namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kMinBlock = 512;
constexpr size_t kSmallLimit = size_t{1} << 20;  // larger requests come from the large set
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;  // for requests below kLargeLimit
constexpr size_t kLargeLimit = size_t{10} << 20;
constexpr size_t kLargeRounding = size_t{2} << 20;

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// A size as PyTorch's own messages have it: "1.50 GiB".
std::string readable(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB"};
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  double size = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (size >= 1024 && unit + 1 < std::size(kUnits)) {
    size /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s", size, kUnits[unit]);
  return text;
}

struct Pool;

struct Block {
  Pool* pool;
  std::byte* data;
  size_t size;
  size_t requested = 0;
  bool small;
  bool free = true;
  Block* previous = nullptr;  // neighbours within the segment
  Block* next = nullptr;
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->data < b->data;
  }
};

void add(StatArray& stat, const Block& b, int64_t amount) {
  for (const StatType type : {StatType::AGGREGATE, b.small ? StatType::SMALL_POOL : StatType::LARGE_POOL}) {
    auto& s = stat[static_cast<size_t>(type)];
    amount >= 0 ? s.increase(amount) : s.decrease(-amount);
  }
}

int64_t current(const StatArray& stat) { return stat[static_cast<size_t>(StatType::AGGREGATE)].current; }

struct Pool {
  c10::DeviceIndex device;
  std::mutex mutex;
  std::set<Block*, BySize> free_small, free_large;
  ska::flat_hash_map<const void*, Block*> taken;  // blocks in use, by address
  DeviceStats stats;

  std::set<Block*, BySize>& free_set(bool small) { return small ? free_small : free_large; }

  void put(Block* b) {
    free_set(b->small).insert(b);
    if (b->previous || b->next) {
      add(stats.inactive_split, *b, 1);
      add(stats.inactive_split_bytes, *b, static_cast<int64_t>(b->size));
    }
  }
  void take(Block* b) {
    free_set(b->small).erase(b);
    if (b->previous || b->next) {
      add(stats.inactive_split, *b, -1);
      add(stats.inactive_split_bytes, *b, -static_cast<int64_t>(b->size));
    }
  }

  // A new segment as one free block that is in no set yet; null if the device has no room.
  Block* segment(size_t bytes, bool small) {
    void* address = nullptr;
    const spyreError_t error = spyreMalloc(device, bytes, current_handle(device), &address);
    if (error == SPYRE_ERROR_OUT_OF_MEMORY) return nullptr;
    check(error, "allocating memory");
    auto* b = new Block{.pool = this, .data = static_cast<std::byte*>(address), .size = bytes, .small = small};
    add(stats.segment, *b, 1);
    add(stats.reserved_bytes, *b, static_cast<int64_t>(bytes));
    ++stats.num_device_alloc;
    return b;
  }

  // Gives whole free segments back to the runtime. Returns whether there were any.
  bool release_cached() {
    bool any = false;
    for (auto* set : {&free_small, &free_large}) {
      for (auto it = set->begin(); it != set->end();) {
        Block* b = *it;
        if (b->previous || b->next) {
          ++it;
          continue;
        }
        it = set->erase(it);
        add(stats.segment, *b, -1);
        add(stats.reserved_bytes, *b, -static_cast<int64_t>(b->size));
        ++stats.num_device_free;
        const spyreError_t error = spyreFree(device, b->data);
        delete b;
        check(error, "freeing memory");
        any = true;
      }
    }
    return any;
  }

  void* allocate(size_t requested) {
    const size_t size = round_up(requested, kMinBlock);
    const bool small = size <= kSmallLimit;
    std::unique_lock lock(mutex);
    auto& set = free_set(small);
    Block key{.pool = this, .data = nullptr, .size = size, .small = small};
    Block* b = nullptr;
    if (const auto it = set.lower_bound(&key); it != set.end()) {
      b = *it;
      take(b);
    } else {
      const size_t bytes = small ? kSmallSegment : size < kLargeLimit ? kLargeSegment : round_up(size, kLargeRounding);
      b = segment(bytes, small);
      if (b == nullptr) {
        ++stats.num_alloc_retries;
        release_cached();
        b = segment(bytes, small);
        if (b == nullptr && bytes > round_up(size, kMinBlock)) b = segment(size, small);
      }
      if (b == nullptr) {
        ++stats.num_ooms;
        lock.unlock();
        out_of_memory(requested);
      }
    }
    const size_t rest = b->size - size;
    if (small ? rest >= kMinBlock : rest > kSmallLimit) {
      auto* remainder = new Block{.pool = this, .data = b->data + size, .size = rest, .small = small};
      remainder->previous = b;
      remainder->next = b->next;
      if (b->next) b->next->previous = remainder;
      b->next = remainder;
      b->size = size;
      put(remainder);
    }
    b->free = false;
    b->requested = requested;
    taken.emplace(b->data, b);
    count(*b, 1);
    const size_t allocated = current(stats.allocated_bytes), reserved = current(stats.reserved_bytes);
    void* const data = b->data;
    const auto whole = static_cast<int64_t>(b->size);
    lock.unlock();
    c10::reportMemoryUsageToProfiler(data, whole, allocated, reserved, c10::Device(kSpyre, device));
    return data;
  }

  void free(void* data) {
    std::unique_lock lock(mutex);
    const auto found = taken.find(data);
    if (found == taken.end()) return;
    Block* b = found->second;
    taken.erase(found);
    const auto size = static_cast<int64_t>(b->size);
    count(*b, -1);
    b->free = true;
    if (Block* n = b->next; n && n->free) {
      take(n);
      b->size += n->size;
      b->next = n->next;
      if (b->next) b->next->previous = b;
      delete n;
    }
    if (Block* p = b->previous; p && p->free) {
      take(p);
      p->size += b->size;
      p->next = b->next;
      if (p->next) p->next->previous = p;
      delete b;
      b = p;
    }
    put(b);
    const size_t allocated = current(stats.allocated_bytes), reserved = current(stats.reserved_bytes);
    lock.unlock();
    c10::reportMemoryUsageToProfiler(data, -size, allocated, reserved, c10::Device(kSpyre, device));
  }

  void count(const Block& b, int sign) {
    add(stats.allocation, b, sign);
    add(stats.active, b, sign);
    add(stats.allocated_bytes, b, sign * static_cast<int64_t>(b.size));
    add(stats.active_bytes, b, sign * static_cast<int64_t>(b.size));
    add(stats.requested_bytes, b, sign * static_cast<int64_t>(b.requested));
  }

  [[noreturn]] void out_of_memory(size_t requested) {
    uint64_t unused = 0, total = 0;
    spyreMemGetInfo(device, &unused, &total);
    size_t allocated, reserved;
    {
      std::lock_guard lock(mutex);
      allocated = current(stats.allocated_bytes);
      reserved = current(stats.reserved_bytes);
    }
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), allocated, reserved, c10::Device(kSpyre, device));
    TORCH_CHECK_WITH(OutOfMemoryError, false, "spyre out of memory. Tried to allocate ", readable(requested),
                     ". Device spyre:", int{device}, " has a total capacity of ", readable(total), " of which ",
                     readable(unused), " is free; PyTorch holds ", readable(allocated), " in tensors and ",
                     readable(reserved - allocated),
                     " in its cache. Use smaller tensors, free some and call torch.spyre.empty_cache(), or give the "
                     "emulated device more: kineto_spyre.emulator.enable(memory_bytes=...).");
  }
};

std::array<Pool, kMaxDevices>& pools() {
  static auto* all = [] {
    auto* made = new std::array<Pool, kMaxDevices>;
    for (int i = 0; i < kMaxDevices; ++i) (*made)[i].device = static_cast<c10::DeviceIndex>(i);
    return made;
  }();
  return *all;
}

// The deleters, one for each device. In a forked process another thread may have held the mutex when it was forked:
// what was the parent's stays.
template <int kDevice>
void free_on(void* data) {
  if (!forked) pools()[kDevice].free(data);
}
constexpr std::array<c10::DeleterFnPtr, kMaxDevices> kDeleters = {free_on<0>, free_on<1>, free_on<2>, free_on<3>,
                                                                  free_on<4>, free_on<5>, free_on<6>, free_on<7>};

struct SpyreAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool initialized() override { return spyreIsInitialized() != 0 && !forked; }
  void emptyCache(c10::MempoolId_t) override {
    refuse_in_fork();
    for (Pool& pool : pools()) {
      std::lock_guard lock(pool.mutex);
      pool.release_cached();
    }
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    Pool& pool = pools()[resolve(device)];
    std::lock_guard lock(pool.mutex);
    return pool.stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    reset(device, [](c10::CachingAllocator::Stat& s) { s.reset_accumulated(); });
    Pool& pool = pools()[device];
    std::lock_guard lock(pool.mutex);
    pool.stats.num_alloc_retries = pool.stats.num_ooms = 0;
    pool.stats.num_device_alloc = pool.stats.num_device_free = 0;
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    reset(device, [](c10::CachingAllocator::Stat& s) { s.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    uint64_t unused = 0, total = 0;
    check(spyreMemGetInfo(resolve(device), &unused, &total), "asking for free memory");
    return {unused, total};
  }

 private:
  template <class F>
  void reset(c10::DeviceIndex device, F f) {
    Pool& pool = pools()[resolve(device)];
    std::lock_guard lock(pool.mutex);
    DeviceStats& s = pool.stats;
    for (StatArray* array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                             &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes}) {
      for (auto& stat : *array) f(stat);
    }
  }
};

// The CPU's allocator, in front of the one that was there: see the head of allocator.h.
struct CpuAllocator final : c10::Allocator {
  c10::Allocator* base = nullptr;

  c10::DataPtr allocate(size_t bytes) override {
    if (kernel_device < 0) [[likely]]
      return base->allocate(bytes);
    c10::DataPtr pointer = allocate_on(kernel_device, bytes);
    pointer.unsafe_set_device(c10::Device(c10::kCPU));
    return pointer;
  }
  // For raw_allocate() and raw_deallocate(), which name memory by its address alone.
  c10::DeleterFnPtr raw_deleter() const override { return &raw_free; }
  static void raw_free(void* data);
  void copy_data(void* to, const void* from, size_t bytes) const override { base->copy_data(to, from, bytes); }
};

CpuAllocator& the_cpu_allocator() {
  static auto* one = new CpuAllocator;
  return *one;
}

void CpuAllocator::raw_free(void* data) {
  const int32_t device = forked ? -1 : spyrePointerDevice(data);
  if (device >= 0) {
    pools()[device].free(data);
  } else if (c10::Allocator* base = the_cpu_allocator().base; base != nullptr) {
    base->raw_deleter()(data);
  }
}

}  // namespace

c10::DeviceAllocator* allocator() {
  static auto* one = new SpyreAllocator;
  return one;
}

c10::Allocator* cpu_allocator() { return &the_cpu_allocator(); }

bool is_memory_of(c10::DeviceIndex device, const c10::DataPtr& pointer) {
  return pointer.get_deleter() == kDeleters[device];
}

c10::DataPtr allocate_on(c10::DeviceIndex device, size_t bytes) {
  const c10::Device on(kSpyre, device);
  if (bytes == 0) return c10::DataPtr(nullptr, on);
  refuse_in_fork();
  void* const data = pools()[device].allocate(bytes);
  return c10::DataPtr(data, data, kDeleters[device], on);
}

void install_allocators() {
  // What is the base must have raw_deleter() and the rest of what CPU code expects: it is whatever is in force now.
  the_cpu_allocator().base = c10::GetAllocator(c10::kCPU);
  c10::SetAllocator(c10::kCPU, &the_cpu_allocator(), /*priority=*/255);
  c10::SetAllocator(kSpyre, allocator(), /*priority=*/255);
}

}  // namespace kineto_spyre::device
