// libaiupti, found and opened at run time.
//
// A libaiupti that is mapped when the process starts makes the runtime slow with no profiler running, so nothing links
// it: the first profiling session opens it, and nothing ever closes it (the runtime keeps pointers into it). There is
// one a process.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <span>
#include <string>
#include <vector>

namespace kineto_spyre::aiupti {

// libaiupti's functions. All are there.
struct Library {
  std::string path;    // the file that the loader took
  std::string notice;  // a sentence for the user, or "": a candidate that was named was passed over, and why
  decltype(&::aiuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::aiuptiActivityEnable) enable = nullptr;
  decltype(&::aiuptiActivityDisable) disable = nullptr;
  decltype(&::aiuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&::aiuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&::aiuptiFlushAllActivities) flush_all = nullptr;
};

// Where to look, from the environment: KINETO_SPYRE_LIBAIUPTI (a path), libaiupti.so as the loader finds it, then the
// lib directories of LIBAIUPTI_INSTALL_DIR, RUNTIME_INSTALL_DIR and the SDK's usual place.
std::vector<std::string> library_candidates();

// Opens the first candidate that the loader takes and that has every function. A library that is already open is
// returned whatever the candidates are. Null, with a sentence in *error that names every path tried and what was wrong
// with it. Any thread, any time, in a forked child too; waits for another thread that is opening it.
const Library* open_library(std::span<const std::string> candidates, std::string* error);

// The library that is open in this process, or null. Opens nothing.
const Library* opened_library() noexcept;

}  // namespace kineto_spyre::aiupti
