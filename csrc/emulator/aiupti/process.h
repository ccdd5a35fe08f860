// What the library holds for the process: one of each part, and what is enabled.
//
// Made with the first call, never destroyed: threads of the runtime outlive the static objects. In the child of a fork
// it is made anew: nothing is enabled there, no callbacks are registered, and there is no completion thread.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "client.h"
#include "completion_thread.h"
#include "emulated_aiupti/staging.h"
#include "filler.h"
#include "record_iterator.h"
#include "writers.h"

namespace kineto_spyre::emulator {

struct Process {
  std::atomic<uint32_t> enabled{0};  // bit = kind; relaxed where a record at the edge may fall on either side
  std::atomic<uint64_t> dropped{0};  // relaxed: a count
  Client client;
  Staging staging;
  Writers writers;
  Filler filler;
  CompletionThread thread;
  RecordIterator iterator;

  std::mutex functions;  // enable, disable, register
  std::mutex flush;      // one flush at a time. Never taken with `functions` held

  bool is_enabled(AIUpti_ActivityKind kind) const { return (enabled.load(std::memory_order_relaxed) >> kind & 1) != 0; }
};

// Release in make_process(): process()'s acquire.
extern std::atomic<Process*> g_process;
Process& make_process();

inline Process& process() {
  Process* const p = g_process.load(std::memory_order_acquire);
  if (p != nullptr) [[likely]]
    return *p;
  return make_process();
}

}  // namespace kineto_spyre::emulator
