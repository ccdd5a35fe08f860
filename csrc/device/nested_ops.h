// Nested tensors with the strided layout (torch.nested.nested_tensor), on the device.
//
// Such a tensor is one dense buffer of the device, and sizes, strides and offsets that lie on the CPU on every device.
// PyTorch's kernels for the CPU's nested tensors are written over the ops of that buffer, and have no other knowledge
// of the CPU: so they run here on the device's tensors as they are, and each op of the buffer that they call becomes a
// kernel or a copy of the device, as on CUDA. Results equal the CPU's, because the buffer's ops do (cpu_fallback.h).
//
// The fused layers of a transformer are the exception: they have code for the CPU within, so they get aliases, like any
// other op (cpu_fallback.h).
//
// Nested tensors with the jagged layout are Python objects around dense ones and need nothing of this.
#pragma once

namespace kineto_spyre::device {

// Called once, by install(), before register_cpu_fallback().
void register_nested_ops();

}  // namespace kineto_spyre::device
