// What a thread knows of the device: its current device, its current stream on each, and how errors are told.
//
// A c10::Stream's id is the runtime's stream id minus one, so that 0 is the default stream as PyTorch wants it, and
// what a trace calls stream 2 is id 1 here. Streams come from a pool (32 of each priority, round robin) and live as
// long as the process, since a c10::Stream is a value that nobody owns.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "spyre_emulator/runtime.h"

namespace kineto_spyre::device {

inline constexpr c10::DeviceType kSpyre = c10::DeviceType::PrivateUse1;
inline constexpr int kMaxDevices = 8;

// Throws c10::Error with the runtime's own sentence unless `error` is SPYRE_SUCCESS.
[[noreturn]] void fail(spyreError_t error, const char* doing);
inline void check(spyreError_t error, const char* doing) {
  if (error != SPYRE_SUCCESS) [[unlikely]]
    fail(error, doing);
}

c10::DeviceIndex device_count() noexcept;
c10::DeviceIndex current_device() noexcept;
// Returns the previous one. Throws if there is no such device.
c10::DeviceIndex exchange_device(c10::DeviceIndex device);

// `device` itself, or the current one for -1. Throws if there is no such device.
c10::DeviceIndex resolve(c10::DeviceIndex device);

c10::Stream current_stream(c10::DeviceIndex device);
// The runtime's handle of the calling thread's current stream (null: the default stream).
spyreStream_t current_handle(c10::DeviceIndex device) noexcept;
spyreStream_t handle(const c10::Stream& stream);

// True in a process forked from one that used the device.
extern bool forked;
// Throws if `forked`.
void refuse_in_fork();

void install_guard();

}  // namespace kineto_spyre::device
