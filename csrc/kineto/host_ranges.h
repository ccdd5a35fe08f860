// The ranges of a session as the profiler itself recorded them, and which thread ran backward for which.
//
// In: each thread's op events (capture), which tell the ids of ops and of record_function ranges, and Kineto's
// activities of those ids, as it hands them over at stop. Out: for each range its thread, begin and end, which is what
// PyTorch shows on the host; nothing of ours knows better, because a range may end on another thread, or in another
// order than it began.
//
// Backward. The autograd engine runs a device's backward on a thread of its own, while the thread that called it waits.
// Its ops are called `autograd::engine::evaluate_function: ...`. Stock PyTorch tells a plugin no sequence numbers
// before the trace is made, so the caller is found by time: while such an op runs, the caller is the one thread, apart
// from the engine's, that is within a range. With two such threads it is not known, and the work belongs to no range.
#pragma once

#include <IActivityProfiler.h>

#include <span>
#include <vector>

#include "capture/capture.h"
#include "trace/trace.h"

namespace kineto_spyre::kineto {

struct HostRanges {
  std::vector<trace::HostRange> ranges;
  std::vector<trace::BackwardInterval> backward;
};

// linked may be null: then there are no ranges. Throws std::bad_alloc.
HostRanges host_ranges(std::span<const capture::ThreadOpEvents> threads,
                       const libkineto::getLinkedActivityCallback& linked);

}  // namespace kineto_spyre::kineto
