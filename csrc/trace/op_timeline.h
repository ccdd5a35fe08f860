// Which op was innermost on a thread at a time.
//
// libaiupti has no external-correlation call, so this is how a launch finds its op: each thread's op events (capture)
// become a list of edges, and a launch is looked up by its own thread and begin.
//
//   op events    push 1   push 2   pop   pop
//   edges        1        2        1     0         each holds from its time until the next
//
// A thread that made no op events (a helper of the runtime's, or a release that doesn't tell who calls) gets the place
// that is within an op at that time on any thread, if there is exactly one: the sole timeline, made when it is first
// asked for.
//
// In: op events of each thread, in the order in which it made them. Owns the list of op ids, which becomes
// the trace's. Lookups are fast for times that mostly ascend within a thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/capture.h"

namespace kineto_spyre::trace {

class OpTimeline {
 public:
  explicit OpTimeline(std::span<const capture::ThreadOpEvents> threads);

  // tid's number, -1 if nothing is known of it.
  int32_t thread(int64_t tid) const;
  bool has_ops(int32_t number) const { return threads_[static_cast<size_t>(number)].has_ops; }
  // Index into ops() plus 1; 0: none.
  uint32_t at(int32_t number, int64_t ns) { return threads_[static_cast<size_t>(number)].edges.at(ns); }
  // The one op that is innermost on its thread at that time, and that thread, if only one thread has one.
  struct Sole {
    uint32_t op = 0;  // 0: none, or several
    int64_t tid = 0;
    bool several = false;
  };
  Sole sole_at(int64_t ns);

  std::vector<uint64_t>& ops() { return ops_; }

 private:
  struct Edge {  // from here on until the next
    int64_t ns;
    uint32_t op;
  };
  class Edges {
   public:
    uint32_t at(int64_t ns) { return ns >= from_ && ns < until_ ? op_ : search(ns); }
    // Of the edge that the last time asked for lies behind; -1: before all.
    ptrdiff_t last_index() const { return static_cast<ptrdiff_t>(cursor_) - 1; }

    std::vector<Edge> list;

   private:
    uint32_t search(int64_t ns);

    size_t cursor_ = 0;  // the first edge after the last time that was asked for
    // What that was the answer to.
    int64_t from_ = 0, until_ = 0;
    uint32_t op_ = 0;
  };
  struct Thread {
    int64_t tid;
    bool has_ops = false;
    Edges edges;
  };

  Thread& thread_of(int64_t tid);
  void read(const capture::ThreadOpEvents& events, Thread& thread);
  void make_sole();

  std::vector<Thread> threads_;
  std::unordered_map<int64_t, int32_t> by_tid_;
  std::vector<uint64_t> ops_;
  bool sole_made_ = false;
  Edges sole_;
  static constexpr int64_t kNoThread = -1, kSeveral = -2;
  std::vector<int64_t> sole_tids_;  // by edge of sole_
};

}  // namespace kineto_spyre::trace
