// Composite ops that run as one op here: LSTM, GRU, plain recurrent layers and their cells.
//
// PyTorch composes these out of other ops, and not of the same ones for every device: on the CPU a layer may be one
// oneDNN call, or has its input product made once for all steps, where other devices fuse the cell. The results differ
// in the last bits. So the CPU's composite runs as one op here, on aliases of the device's memory, with the CPU's
// autograd recording it; the device's autograd gets one node for it, whose backward runs the CPU's graph. Second
// derivatives through such an op are not to be had: asking for them gives PyTorch's error for a once-differentiable op.
#pragma once

namespace kineto_spyre::device {

void register_composite_ops();

}  // namespace kineto_spyre::device
