// Device times for the older way to profile: torch.autograd.profiler.profile(use_device="spyre") without use_kineto
// asks no activity profiler, but puts an event of the device before and after each op.
#pragma once

namespace kineto_spyre::kineto {

// Lets PyTorch do so through the device's own events, whichever device PrivateUse1 is. Does nothing if someone else
// (the device's own package) has seen to it already.
void register_profiler_stubs();

}  // namespace kineto_spyre::kineto
