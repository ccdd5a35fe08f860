// A device's clock against the host's, from causality alone.
//
// In: bounds of the clock's offset at some times (clock_evidence.h). Out: a fit, and whether it is to be applied; then,
// the same instant on the host's clock. Owns nothing.
//
// Work can't begin before the call that launched it began: with t the work's begin on the device's clock and u = t
// minus the launch's begin (host clock), the clock's offset at t is at most u. Work can't end after the end of a wait
// that began after its launch: with t its end and l = t minus the wait's end, the offset at t is at least l. An idle
// device begins at once, so the upper bounds of a session with a few pauses come within a launch's latency of the
// truth; the estimate is the highest straight line below all of them (an edge of their lower convex hull).
//
// It is applied only if the records are impossible without it: some work begins before its launch, or ends after it was
// waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"

namespace kineto_spyre::trace {

struct Bound {
  int64_t t;      // device clock
  int64_t value;  // ns
};

class ClockEvidence;
class CorrelationTable;

// The clock of each device of the evidence, ascending by device. Records of a device whose clock is off are corrected
// in place; *moved tells whether any were.
std::vector<DeviceClock> align_clocks(ClockEvidence& evidence, CorrelationTable& table, EventStore& events,
                                      bool enabled, bool* moved);

// Fills offset, drift, reference, uncertainty, reason and applied. The vectors are sorted and thinned.
void estimate_clock(std::vector<Bound>& upper, std::vector<Bound>& lower, DeviceClock* clock);

// The same instant on the host's clock. Monotone; never before the truth that the upper bounds allow.
int64_t to_host(const DeviceClock& clock, int64_t device_ns);

}  // namespace kineto_spyre::trace
