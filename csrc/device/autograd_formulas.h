// Gradients whose formula asks whether the device is the CPU.
//
// PyTorch's formula for native_group_norm makes the gradient and the input contiguous before it calls the backward
// kernel, unless the device is the CPU: there they keep channels_last, the kernel sums in another order, and the
// gradients come out in that layout. Here the CPU's way is taken, so that gradients equal the CPU's. In PyTorch's list
// of formulas it is the only one that asks (a test searches the installed list). Of the functions that formulas call,
// evenly_distribute_backward asks for CUDA, and renorm_backward takes the dtype that it sums in by the device: neither
// counts this device as CUDA, so both go the CPU's way. Dropout (factory_ops.h), convolutions (cpu_fallback.h),
// attention's choice of kernel and recurrent layers (composite_ops.h) are not formulas but ops.
//
// Forward mode and functional transforms go PyTorch's own way, which is the same for all devices. For second
// derivatives the op is differentiated again by PyTorch's formulas, on a graph of its own: their terms are the CPU's,
// and are added in another order.
#pragma once

namespace kineto_spyre::device {

// Called once, by install().
void register_autograd_formulas();

}  // namespace kineto_spyre::device
