// An op of the device: the CPU's own kernel, run on aliases of the device's memory, then its place on the timeline.
//
//   op_plan.h        what the op's schema says, once
//   cpu_call.h       arguments to aliases, results back to the device
//   storage_alias.h  the same bytes as a CPU storage
//   launch.h         what is left on the timeline
//
// The kernel is asked of the dispatcher by the CPU's key: nothing is recorded as an op of its own, and nothing that it
// calls. What it allocates is device memory (allocator.h).
//
// It is registered for each op that has a CPU kernel of its own, since otherwise an op's CompositeExplicitAutograd
// kernel would run in place of the CPU's and round differently; and as a fallback for ops that are registered later.
// Each layout has its pair of keys: dense, quantized, sparse, compressed sparse, nested.
#pragma once

namespace kineto_spyre::device {

// Called once, by install(). Registrations last as long as the process.
void register_cpu_fallback();

}  // namespace kineto_spyre::device
