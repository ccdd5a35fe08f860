// The kernels that are not the CPU's: making tensors, views, and what PyTorch leaves to the device.
#pragma once

namespace kineto_spyre::device {

void register_factory_ops();

}  // namespace kineto_spyre::device
