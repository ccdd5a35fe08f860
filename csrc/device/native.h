// The kernels that are not the CPU's: making tensors, views, and what PyTorch leaves to the device.
#pragma once

namespace kineto_spyre::device {

void register_native_kernels();

}  // namespace kineto_spyre::device
