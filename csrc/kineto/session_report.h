// What a session tells about itself: the trace's metadata `kineto_spyre`, which last_session() shows as well.
#pragma once

#include <cstdint>
#include <string>

#include "capture/capture.h"
#include "trace/diagnostics.h"
#include "trace/trace.h"

namespace kineto_spyre::kineto {

struct SessionFacts {
  std::string runtime;    // "aiupti" or "emulated"
  std::string library;    // path, "" if none was opened
  bool recorded = false;  // it came to a regular stop
  uint32_t process_id = 0;
  uint64_t dropped = 0;  // records, by libaiupti's own count
  capture::Drops drops;
  int64_t window_begin = 0;  // ns since the epoch
  int64_t window_end = 0;
};

// Adds what the counts of capture and trace say went wrong.
void diagnose(const SessionFacts& facts, const trace::Trace& trace, trace::Diagnostics& diagnostics);

// A JSON object; docs/reference/metadata.md lists its keys.
std::string report(const SessionFacts& facts, const trace::Trace& trace, const trace::Diagnostics& diagnostics);

}  // namespace kineto_spyre::kineto
