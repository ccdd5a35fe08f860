#include "device/storage_alias.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "device/allocator.h"
#include "device/runtime.h"

namespace kineto_spyre::device {
namespace {

using c10::StorageImpl;

std::atomic<uint64_t> moved_bytes{0};  // counted for tests; no order with anything

void release_storage(void* context) { c10::raw::intrusive_ptr::decref(static_cast<StorageImpl*>(context)); }

// A pointer to the bytes of `storage` that keeps it.
c10::DataPtr pointer_into(StorageImpl* storage, void* data, c10::Device as) {
  c10::raw::intrusive_ptr::incref(storage);  // released by release_storage()
  return c10::DataPtr(data, storage, &release_storage, as);
}

c10::DataPtr moved_to(c10::DeviceIndex device, const void* data, size_t bytes) {
  c10::DataPtr moved = allocate_on(device, bytes);
  std::memcpy(moved.get(), data, bytes);
  moved_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return moved;
}

void own(c10::DataPtr& data, size_t bytes, c10::DeviceIndex device) {
  if (is_memory_of(device, data) || data.get() == nullptr) {
    data.unsafe_set_device(c10::Device(kSpyre, device));
  } else {
    data = moved_to(device, data.get(), bytes);
  }
}

}  // namespace

c10::intrusive_ptr<StorageImpl> alias_of(StorageImpl* storage, c10::Device as, bool resizable) {
  return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), storage->sym_nbytes(),
                                          pointer_into(storage, storage->_mutable_data_ptr_no_checks().get(), as),
                                          as.is_cpu() ? cpu_allocator() : allocator(), resizable);
}

c10::intrusive_ptr<StorageImpl> StorageAliases::of(StorageImpl* device) {
  constexpr size_t kFew = 16;
  if (pairs_.size() <= kFew) [[likely]] {
    for (const Pair& p : pairs_) {
      if (p.device == device) return p.cpu;
    }
  } else {
    if (index_.empty()) {
      for (size_t i = 0; i < pairs_.size(); ++i) index_.emplace(pairs_[i].device, i);
    }
    if (const auto it = index_.find(device); it != index_.end()) return pairs_[it->second].cpu;
    index_.emplace(device, pairs_.size());
  }
  auto cpu = alias_of(device, c10::Device(c10::kCPU), device->resizable());
  pairs_.push_back({device, cpu});
  return cpu;
}

StorageImpl* StorageAliases::behind(const StorageImpl* cpu) const {
  for (const Pair& p : pairs_) {
    if (p.cpu.get() == cpu) return p.device;
  }
  return nullptr;
}

void StorageAliases::hand_back(c10::DeviceIndex device) {
  for (const Pair& p : pairs_) {
    c10::DataPtr& now = p.cpu->_mutable_data_ptr_no_checks();
    const size_t bytes = p.cpu->nbytes();
    if (now.get() == p.device->_mutable_data_ptr_no_checks().get() && bytes == p.device->nbytes()) continue;
    if (now.get_deleter() != &release_storage) {
      c10::DataPtr taken = std::move(now);
      now = pointer_into(p.device, taken.get(), c10::Device(c10::kCPU));
      own(taken, bytes, device);
      p.device->set_data_ptr_noswap(std::move(taken));
    }
    p.device->set_nbytes(bytes);
  }
}

void claim(StorageImpl* made, c10::DeviceIndex device) {
  c10::DataPtr& data = made->_mutable_data_ptr_no_checks();
  if (data.device().type() == kSpyre) return;  // two results share it
  own(data, made->nbytes(), device);
  made->set_allocator(allocator());
}

c10::intrusive_ptr<StorageImpl> copied_to(c10::DeviceIndex device, const StorageImpl& storage) {
  return c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), storage.nbytes(),
                                          moved_to(device, storage.data(), storage.nbytes()), allocator(), true);
}

uint64_t bytes_moved() { return moved_bytes.load(std::memory_order_relaxed); }

}  // namespace kineto_spyre::device
