// torch.distributed on tensors of the device, by gloo.
//
// A collective of the device is the CPU's collective on the same bytes: gloo works on the device's memory directly, so
// nothing is copied that a user would wait for. What the timeline and the runtime's calls show is what staging through
// the host would: what the rank contributes is read back (aiuCommsOpD2HXfer and its memcpy), the collective runs under
// its own id, and what it yields is written to the device (aiuCommsOpH2DXfer and its memcpy). Such a collective is over
// when the call returns, also with async_op=True; send and receive are as asynchronous as gloo's.
#pragma once

namespace kineto_spyre::device {

void register_collectives();

}  // namespace kineto_spyre::device
