// What one session asks of libaiupti, in the order that its public clients use: register, enable each kind; then flush,
// disable each kind, flush again. A library that discards at disable, or that flushes nothing once no kind is enabled,
// has delivered everything by the first flush.
//
// In: the library, the kinds that are wanted. Out: diagnostics for whatever failed. The end runs on a thread of its
// own, since a flush may never return: then that thread is left behind, and so is what it works on, until the process
// ends. Owner: the session, one thread at a time; only is_hanging() may be asked from any thread.
//
// The flight recorder has one of its own beside the session's. A kind is enabled as long as one of them wants it, and
// the library's count of dropped records is read for both (it may start again when it is read).
#pragma once

#include <libaiupti/aiupti_activity.h>

#include <cstdint>
#include <string>
#include <vector>

#include "aiupti/library.h"
#include "kineto/forkable_mutex.h"
#include "trace/diagnostics.h"

namespace kineto_spyre::kineto {

// Held while a trace is made: the library's iterator keeps its places in memory that all threads share.
inline ForkableMutex iteration_mutex;

struct WantedKind {
  AIUpti_ActivityKind kind;
  const char* name;  // in a sentence: "kernels"
};

class LibraryControl {
 public:
  // last_flush: whether a flush after disabling is tried.
  LibraryControl(const aiupti::Library& library, bool last_flush) : library_(library), last_flush_(last_flush) {}

  // Whether the end of an earlier session has not returned: the library must not be called then.
  static bool is_hanging();

  // False if the library takes no callbacks: then nothing can be recorded.
  bool register_callbacks(trace::Diagnostics& diagnostics);
  void enable(const std::vector<WantedKind>& kinds, trace::Diagnostics& diagnostics);
  // Where the library's count of dropped records stands when the window opens.
  void open_window(trace::Diagnostics& diagnostics);
  // As end(), until resume().
  void pause(int64_t timeout_ms, trace::Diagnostics& diagnostics);
  void resume(trace::Diagnostics& diagnostics);
  // Flush, disable, flush (unless it is known to be of no use); at most so long.
  void end(int64_t timeout_ms, trace::Diagnostics& diagnostics);
  // Flushes, at most so long, and leaves all else as it is. False if it did not return.
  bool flush(int64_t timeout_ms, trace::Diagnostics& diagnostics);
  // Records that the library dropped since open_window().
  uint64_t dropped(trace::Diagnostics& diagnostics) const;

 private:
  uint64_t total_dropped(trace::Diagnostics& diagnostics) const;
  bool run(std::vector<WantedKind> to_disable, bool flush_again, int64_t timeout_ms, trace::Diagnostics& diagnostics);

  const aiupti::Library& library_;
  bool last_flush_;
  std::vector<WantedKind> enabled_;
  std::vector<WantedKind> paused_;
  uint64_t dropped_before_ = 0;
};

}  // namespace kineto_spyre::kineto
