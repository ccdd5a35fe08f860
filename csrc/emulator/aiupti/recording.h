// The tracer that the library installs in the runtime: writes the records of enabled kinds, on the thread that calls.
#pragma once

#include "spyre_emulator/runtime.h"
#include "spyre_emulator/tracer.h"

namespace kineto_spyre::emulator {

extern const spyreTracer kTracer;

}  // namespace kineto_spyre::emulator
