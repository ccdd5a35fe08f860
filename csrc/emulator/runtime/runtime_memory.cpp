// The C interface: the memory of devices.
#include "c_interface.h"
#include "spyre_emulator/runtime.h"

using namespace kineto_spyre::emulator;

spyreError_t spyreMalloc(int32_t index, uint64_t bytes, spyreStream_t stream_or_null, void** address) {
  const auto [device, stream, error] = find_stream(index, stream_or_null);
  if (error != SPYRE_SUCCESS) return error;
  if (address == nullptr)
    return fail(SPYRE_ERROR_INVALID_VALUE, "spyreMalloc needs a pointer for the address; it is null");
  CallInProgress call(kMalloc);
  *address = device->memory.allocate(bytes);
  if (*address == nullptr) {
    return fail(SPYRE_ERROR_OUT_OF_MEMORY, "device ", index, " has no room for ", bytes,
                " bytes: ", device->memory.free_bytes(), " of ", device->memory.total(),
                " bytes are free, the largest block of them has ", device->memory.largest_free_block());
  }
  if (call.traced()) {
    call.end(bytes);
    call.tracer()->memory({false, static_cast<uint32_t>(index), stream->id, call.correlation,
                           reinterpret_cast<uint64_t>(*address), bytes, call.begin_ns, call.end_ns, device->clock()});
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreFree(int32_t index, void* address) {
  const auto [device, error] = find_device(index);  // what a lost device held may be freed
  if (error != SPYRE_SUCCESS) return error;
  CallInProgress call(kResizeTensorAllocation);
  const int64_t bytes = device->memory.release(address);
  if (bytes < 0) {
    return fail(SPYRE_ERROR_INVALID_VALUE, "nothing is allocated on device ", index, " at address ",
                reinterpret_cast<uintptr_t>(address), ": it was freed before, or never allocated");
  }
  if (call.traced()) {
    const auto size = static_cast<uint64_t>(bytes);
    call.end(size);
    call.tracer()->memory({true, static_cast<uint32_t>(index), device->default_stream().id, call.correlation,
                           reinterpret_cast<uint64_t>(address), size, call.begin_ns, call.end_ns, device->clock()});
  }
  return SPYRE_SUCCESS;
}

spyreError_t spyreMemGetInfo(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes) {
  const auto [device, error] = find_device(index);
  if (error != SPYRE_SUCCESS) return error;
  if (free_bytes != nullptr) *free_bytes = device->memory.free_bytes();
  if (total_bytes != nullptr) *total_bytes = device->memory.total();
  return SPYRE_SUCCESS;
}

int32_t spyrePointerDevice(const void* address) {
  if (const Machine* machine = g_machine.load(std::memory_order_acquire)) {
    for (const auto& device : machine->devices) {
      if (device->memory.contains(address)) return device->index;
    }
  }
  return -1;
}
