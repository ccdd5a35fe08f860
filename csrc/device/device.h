// PyTorch's device "spyre" (the key PrivateUse1), over the runtime of the emulated Spyre.
//
// The door of this room: what the Python bindings call. How the device works:
//
//   runtime.h          current device and streams of a thread, the device guard, events
//   allocator.h        the caching allocator, and where a CPU kernel's results come to lie
//   cpu_fallback.h     an op: the CPU's kernel on aliases of the device's memory, then its place on the timeline; its
//                      parts are op_plan.h, cpu_call.h, storage_alias.h and launch.h
//   cost.h             what that kernel is called, and the figures from which the cost model knows how long it lasts
//   factory_ops.h      the kernels that are not the CPU's: making tensors, views
//   composite_ops.h    recurrent layers, taken as one op
//   nested_ops.h       nested tensors, over the ops of their buffer
//   alias_on_device.h  the same bytes under another device's name
//   wider_dtypes.h     dtypes that accelerators have and the CPU lacks
//   autograd_formulas.h, backward_threads.h   gradients that equal the CPU's
//   sparse.h           sparse layouts, around the same members
//   autocast.h         the casts of torch.autocast("spyre")
//   collectives.h      torch.distributed, by gloo
//   hooks.h            generators, pinned memory and the rest of what PyTorch asks of an accelerator
//
// Two rules hold it together: a result equals the CPU's to the last bit, and the host pays for no copy that the program
// did not ask for.
#pragma once

#include <cstdint>

namespace kineto_spyre::device {

// Makes "spyre" known to the dispatcher, the allocator and the accelerator tables. Once a process; later calls do
// nothing. The runtime must have been initialised (spyreInit). `measure` says whether kernels shall report how long
// their CPU execution took (SPYRE_TIME_MEASURED). Throws c10::Error with a sentence if the runtime is not initialised.
void install(bool measure);
bool installed();

// Whether this process was forked from one that used the device: its threads are gone here.
bool in_bad_fork();

}  // namespace kineto_spyre::device
