// What an op leaves on the device's timeline, on the calling thread's current stream.
//
// The CPU has computed when these are called, so nothing here moves a byte: they tell the runtime what a Spyre would
// have done, and the runtime records it (spyre_emulator/runtime.h). Sizes are in bytes, times in nanoseconds. Errors:
// c10::AcceleratorError with the runtime's sentence.
#pragma once

#include "device/cost.h"
#include "device/runtime.h"

namespace kineto_spyre::device {

// A kernel. `measured_ns`: how long its CPU execution took, -1 if that was not measured.
void launch(c10::DeviceIndex device, const KernelNames& names, const Figures& figures, int64_t measured_ns,
            c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> written);

// A kernel that was compiled, under the name that its compiler gave it. Throws in a process forked from one that uses
// the device.
void launch(c10::DeviceIndex device, const char* name, const Figures& figures, int64_t measured_ns);

// A copy between the host and a device, or between two devices. Not within a device: that is a kernel. The host waits
// for it unless it was asked not to (`non_blocking`) and its side of the copy is pinned.
void launch_copy(const at::Tensor& to, const at::Tensor& from, bool non_blocking);

// The host waits for a value of `bytes` bytes.
void launch_read_back(c10::DeviceIndex device, uint64_t bytes);

// The runtime's own fill of a dense tensor with zeroes, which writes the bytes. Returns false, and does nothing, if `t`
// is not dense or has no elements.
bool launch_zero_fill(const at::Tensor& t);

// The clock of measured_ns, or 0 if nobody asked for it (install()).
int64_t stopwatch();
inline int64_t elapsed_since(int64_t begin) { return begin == 0 ? -1 : stopwatch() - begin; }
void set_measuring(bool on);

}  // namespace kineto_spyre::device
