// An op of the device: the CPU's own kernel, run on an alias of the device's memory.
//
//   arguments   each device tensor is replaced by a CPU tensor over the same bytes: a new TensorImpl, and one
//               StorageImpl for each storage among the arguments, so that two views of one tensor still overlap in the
//               kernel's eyes. The alias storage's context holds the device's storage: whoever keeps it keeps the
//               bytes.
//   call        the CPU kernel (asked of the dispatcher by key: nothing is recorded as an op of its own, and nothing
//               that it calls). What it allocates is device memory (allocator.h).
//   results     an argument that it returns is the argument it was given. A view of an argument gets the device's
//               storage. Anything else is new, and becomes the device's in place: the same TensorImpl, the same bytes.
//   arguments   that it resized or re-seated (out=, resize_, set_) hand their new shape and memory back.
//   timeline    one kernel, or what its kind says, with the figures and the name of cost.h, on the current stream.
//
// The schema of an op is analysed once, when it is registered (Plan). The kernel is registered for each op that has a
// CPU kernel of its own, since otherwise an op's CompositeExplicitAutograd kernel would run in place of the CPU's and
// round differently; and as a fallback for ops that are registered later.
#pragma once

#include <cstdint>

namespace kineto_spyre::device {

void register_boxed_kernels();

// Bytes that results had to be moved by, since a kernel did not allocate them from the CPU allocator on its calling
// thread. It is 0 for all that we know of; tests look at it.
uint64_t bytes_moved();

}  // namespace kineto_spyre::device
