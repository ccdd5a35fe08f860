// Memory of the device, as PyTorch asks for it.
//
// Caching. The runtime hands out segments (spyreMalloc: a record, a lock, an address range); tensors get blocks of
// them.
//
//   segment   | block | block | free block | block |        neighbours are linked; adjacent free blocks are one
//   free sets   one for requests up to 1 MiB (segments of 2 MiB), one for larger (20 MiB, or the request itself),
//               ordered by size: the smallest block that fits is split
//
// A block is owned by the free set, or by the c10::DataPtr that names its address. One mutex a device guards its sets,
// links and statistics. A freed block may be reused at once, whatever stream used it: this device computes on the
// host's thread when the op is called, so nothing still reads it (that is also why record_stream has nothing to do).
//
// Where a CPU kernel's results lie. While an op of the device runs its CPU kernel (KernelScope), the CPU allocator of
// the calling thread hands out blocks of the device's memory. The op then only declares the result to be the device's:
// no byte is copied, and the kernel's temporaries count as what they are, workspace on the device.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>

namespace kineto_spyre::device {

// The allocator of PrivateUse1. allocate() takes memory of the current device.
c10::DeviceAllocator* allocator();
// The CPU's allocator from install_allocators() on.
c10::Allocator* cpu_allocator();

// Whether `pointer` is memory that allocate_on(device) handed out, whatever device it is said to be on.
bool is_memory_of(c10::DeviceIndex device, const c10::DataPtr& pointer);
c10::DataPtr allocate_on(c10::DeviceIndex device, size_t bytes);

// The device whose op is running its CPU kernel on this thread, or -1.
extern constinit thread_local int8_t kernel_device;

class KernelScope {
 public:
  explicit KernelScope(c10::DeviceIndex device) noexcept : previous_(kernel_device) { kernel_device = device; }
  ~KernelScope() { kernel_device = previous_; }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  int8_t previous_;
};

void install_allocators();

}  // namespace kineto_spyre::device
