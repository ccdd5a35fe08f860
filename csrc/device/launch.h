// Places an op's kernel on the timeline of the calling thread's current stream.
#pragma once

#include "device/cost.h"
#include "device/runtime.h"

namespace kineto_spyre::device {

// `measured_ns`: how long its CPU execution took, -1 if that was not measured.
void launch(c10::DeviceIndex device, const KernelNames& names, const Figures& figures, int64_t measured_ns,
            c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> written);

// The clock of measured_ns, or 0 if nobody asked for it (install()).
int64_t stopwatch();
inline int64_t elapsed_since(int64_t begin) { return begin == 0 ? -1 : stopwatch() - begin; }
void set_measuring(bool on);

}  // namespace kineto_spyre::device
