// What PyTorch asks of an accelerator as such: generators, pinned memory, and the table of hooks.
//
// Random numbers. A generator of the device is a CPU generator under another name: the CPU kernel that draws from it is
// given the CPU generator within, so the same seed gives the numbers that it gives on the CPU, and drawing on the
// device leaves the CPU's own generator alone.
//
// A backward begins by asking which devices are in use (hasPrimaryContext): that is when the caller's thread count is
// taken (backward_threads.h).
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

namespace kineto_spyre::device {

// The CPU generator within the device generator that `generator` holds, or within the device's default one if it holds
// none. Throws if it is a generator of something else.
at::Generator cpu_generator(const c10::IValue& generator, c10::DeviceIndex device);

bool is_pinned(const void* pointer) noexcept;

void install_hooks();

}  // namespace kineto_spyre::device
