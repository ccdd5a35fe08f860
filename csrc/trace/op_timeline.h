// Which op, and which record_function range, was innermost on a thread at a time.
//
// libaiupti has no external-correlation call, so this is how a launch finds its op: the capture's notes of one thread
// are made into a timeline of edges, and a launch is looked up by its own thread and begin.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/capture.h"

namespace kineto_spyre::trace {

class OpTimeline {
 public:
  struct Place {
    uint32_t op = 0;     // index into ops() plus 1; 0: none
    uint32_t range = 0;  // index into ranges() plus 1; 0: none
  };
  struct Range {
    uint64_t id;
    uint32_t parent;  // index plus 1 of the range around it; 0: none
  };

  explicit OpTimeline(std::span<const capture::ThreadOpEvents> threads);

  // tid's number, -1 if it made no notes.
  int32_t thread(int64_t tid) { return tid == last_tid_ ? last_thread_ : find_thread(tid); }
  // Fast for times that mostly ascend within a thread.
  Place at(int32_t number, int64_t ns) {
    const Thread& thread = threads_[static_cast<size_t>(number)];
    return ns >= thread.from && ns < thread.until ? thread.place : search(number, ns);
  }
  // For releases that don't tell the thread: the one place that is within an op at that time on any thread, if there is
  // exactly one; *tid is its thread, else left alone.
  Place only_one_at(int64_t ns, int64_t* tid);

  std::vector<uint64_t>& ops() { return ops_; }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  struct Edge {  // from here on until the next
    int64_t ns;
    Place place;
  };
  struct Thread {
    int64_t tid;
    std::vector<Edge> edges;
    size_t cursor = 0;  // the first edge after the last time that was asked for
    // What that was the answer to.
    int64_t from = 0, until = 0;
    Place place;
  };

  int32_t find_thread(int64_t tid);
  Place search(int32_t number, int64_t ns);
  void read(const capture::ThreadOpEvents& notes, Thread& thread);

  std::vector<Thread> threads_;
  std::unordered_map<int64_t, int32_t> by_tid_;
  int64_t last_tid_ = -1;
  int32_t last_thread_ = -1;
  std::vector<uint64_t> ops_;
  std::vector<Range> ranges_;
};

}  // namespace kineto_spyre::trace
