// What the emulated runtime tells whoever traces it (the emulated libaiupti). Private to csrc/emulator.
//
// The runtime knows when things happened; the tracer knows what a record looks like. Functions of a tracer must not
// throw and must not call the runtime. They stay valid for the process's life: a call may still be under way when
// spyreSetTracer has taken the tracer off.
#pragma once

#include <cstdint>

#include "cost_model.h"

namespace kineto_spyre::emulator {

// A device's clock against the host's: device = host + offset + drift * (host - epoch).
struct EmulatedClock {
  int64_t offset_ns = 0;
  double drift = 0;  // 50 ppm: 50e-6
  uint64_t epoch_ns = 0;

  uint64_t at(uint64_t host_ns) const {
    const auto elapsed = static_cast<double>(static_cast<int64_t>(host_ns - epoch_ns));
    const int64_t drifted = drift == 0 ? 0 : static_cast<int64_t>(drift * elapsed);
    return host_ns + static_cast<uint64_t>(offset_ns + drifted);
  }
};

// A host call of the runtime, on the thread that calls the tracer.
struct HostCall {
  uint32_t cbid;
  uint32_t correlation;
  uint64_t begin_ns, end_ns;  // the host's clock
  uint64_t data;
};

struct MemoryEvent {
  bool release;
  uint32_t device, stream, correlation;
  uint64_t address, bytes;
  uint64_t begin_ns, end_ns;  // the host's clock
  EmulatedClock clock;
};

enum class WorkKind : uint8_t { kKernel, kCopy, kFill };

// `count` pieces of device work in a row, equal but for their times. On the device's runtime thread.
struct DeviceWork {
  WorkKind kind;
  spyreMemcpyKind_t copy_kind;
  uint32_t device, stream, correlation;
  const char* name;  // NUL-terminated, at most 127 bytes and the NUL
  uint64_t bytes;
  uint64_t scratchpad_bytes;
  // True times, in the host's clock. In records, what the device stamps goes through `clock`: all but queued,
  // submitted.
  uint64_t queued_ns;
  uint64_t start_ns;     // of the first piece
  uint64_t duration_ns;  // of each
  uint64_t period_ns;    // from one start to the next
  uint64_t count;
  uint64_t cycles;        // cycle counter at start_ns
  uint64_t cycle_period;  // counted from one start to the next
  model::Phases phases;
  bool reversed;                 // a fault: last piece first
  spyreCollective_t collective;  // that it belongs to; all zero: to none
  EmulatedClock clock;
};

// Returns when every record of work that had ended when this was called has been given to the tracer. For a flush; not
// to be called from a tracer's functions.
SPYRE_API void deliver_ended_work() noexcept;

}  // namespace kineto_spyre::emulator

struct spyreTracer {
  void (*host_call)(const kineto_spyre::emulator::HostCall& call);
  void (*memory)(const kineto_spyre::emulator::MemoryEvent& event);
  void (*device_work)(const kineto_spyre::emulator::DeviceWork& work);
};
