// libaiupti, found and opened at run time.
//
// A libaiupti that is mapped when the process starts makes the runtime slow with no profiler running, so nothing links
// it: the first profiling session opens it, and nothing ever closes it (the runtime keeps pointers into it). There is
// one a process: if the process has one already (the runtime opens a fixed path of its own), that one is used, for a
// second copy would record nothing.
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <span>
#include <string>

namespace kineto_spyre::aiupti {

// libaiupti's functions. All are there.
struct Library {
  std::string path;         // the file that the loader took
  std::string in_place_of;  // the first candidate, if it is another file than the one that the process had already
  bool emulated = false;    // it is this project's: what records.h calls the emulated library's own is true of it
  decltype(&::aiuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::aiuptiActivityEnable) enable = nullptr;
  decltype(&::aiuptiActivityDisable) disable = nullptr;
  decltype(&::aiuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&::aiuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&::aiuptiFlushAllActivities) flush_all = nullptr;
};

// Opens the first candidate (a path, or a name for the loader to find) that the loader takes and that has every
// function, with RTLD_GLOBAL. A mapped file that bears the name of any candidate comes before all of them. A library
// that is open already is returned whatever the candidates are. Null, with every path that was tried and what was wrong
// with it in *tried. Any thread, any time, in a forked child too; waits for another thread that is opening it.
const Library* open_library(std::span<const std::string> candidates, std::string* tried);

// How many records the open library finds in this buffer. Iterates to the end, which is the first result that isn't
// success, or a step that leaves the buffer or doesn't go forward. 0 if no library is open.
uint64_t count_records(uint8_t* data, size_t valid) noexcept;

// The library that is open in this process, or null. Opens nothing.
const Library* opened_library() noexcept;

}  // namespace kineto_spyre::aiupti
