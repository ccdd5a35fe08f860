// The storages of one call, under the CPU's name.
//
// A storage alias is a CPU StorageImpl over the bytes of a device's storage. There is one for each storage among a
// call's arguments, so that two views of one tensor still overlap in the kernel's eyes.
//
//   device storage  <-- keeps (a reference in the DataPtr's context) --  storage alias  <-- CPU tensors of the call
//
// Who owns what: the alias's DataPtr owns a reference to the device's storage and no memory; whoever keeps the alias
// keeps the bytes. StorageAliases lives as long as the call. A kernel may resize an alias (out=, resize_): the alias
// then owns new memory, which hand_back() gives to the device's storage.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>

namespace kineto_spyre::device {

// A CPU storage, or with `as` a device another device's, over the bytes of `storage`, which it keeps.
c10::intrusive_ptr<c10::StorageImpl> alias_of(c10::StorageImpl* storage, c10::Device as, bool resizable);

class StorageAliases {
 public:
  // The alias of `device`, made at the first call. The owner keeps `device` alive.
  c10::intrusive_ptr<c10::StorageImpl> of(c10::StorageImpl* device);

  // The device's storage behind an alias, or null if `cpu` is none of ours.
  c10::StorageImpl* behind(const c10::StorageImpl* cpu) const;

  // Gives the memory of each alias that the kernel resized to its device storage.
  void hand_back(c10::DeviceIndex device);

 private:
  struct Pair {
    c10::StorageImpl* device;
    c10::intrusive_ptr<c10::StorageImpl> cpu;
  };
  c10::SmallVector<Pair, 4> pairs_;
  ska::flat_hash_map<c10::StorageImpl*, size_t> index_;  // of pairs_, once there are many (foreach ops)
};

// Makes a storage that the CPU's kernel made the device's: by name if it lies in the device's memory, as it should
// (allocator.h), else by moving its bytes.
void claim(c10::StorageImpl* made, c10::DeviceIndex device);

// A new storage of the device with a copy of the bytes of `storage`.
c10::intrusive_ptr<c10::StorageImpl> copied_to(c10::DeviceIndex device, const c10::StorageImpl& storage);

// Bytes that results had to be moved by, because a kernel did not allocate them from the CPU allocator on its calling
// thread. It is 0 for all that we know of; tests look at it.
uint64_t bytes_moved();

}  // namespace kineto_spyre::device
