// From the ranges that the profiler recorded, and the work launched in them, to ranges on the devices.
//
// In: PyTorch's own record_function ranges (thread, begin and end as it hands them over at stop; nothing of ours knows
// better), and the intervals in which threads of the autograd engine ran backward for another thread. Then, for each
// piece of device work, where it was launched and when it ran. Out: for each range and each stream with work of it, the
// time from the first begin to the last end of that work.
//
// Ranges of one thread need not nest (a step of the profiler's schedule ends inside a user's range; coroutines
// interleave; a future ends a range on another thread), so there is no stack here. Instead:
//
//   range A      |-----------------------|
//   range B             |-------------------------|
//   boundaries   |      |                |        |
//   segments     |  1   |       2        |   3    |      A covers 1 to 2, B covers 2 to 3
//
// A thread's time is cut into segments at each begin and end. A launch belongs to one segment; what is collected while
// records are read is the extent of the work of each segment on each stream. A range is a run of segments on its own
// thread, and one run more on each thread of the engine that worked for its thread within it: there, the same
// boundaries cut the engine's time. At the end, a range's extent is that of its runs (a tree of extents answers it).
//
// States: made from the ranges; then segment_at() and add() any number of times; finish() at the end.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "trace/trace.h"

namespace kineto_spyre::trace {

class UserAnnotations {
 public:
  UserAnnotations(std::span<const HostRange> ranges, std::span<const BackwardInterval> backward);

  // The segment that a thread was in at a time; 0: in no range. Fast for times that mostly ascend within a thread.
  uint32_t segment_at(int64_t tid, int64_t ns);

  // Work that was launched in a segment (not 0) ran on a stream, which the index of its track stands for.
  void add(uint32_t segment, uint16_t stream_track, int64_t start, int64_t end) {
    Extent& extent = find(segment, stream_track);
    extent.start = std::min(extent.start, start);
    extent.end = std::max(extent.end, end);
  }

  // Of ranges with the same extent the outer one first. track: the stream's; level: 1.
  std::vector<DeviceRange> finish() const;

 private:
  struct Boundary {
    int64_t ns;
    uint32_t segment;  // from here on until the next boundary; 0: in no range
  };
  // A thread's time.
  struct Thread {
    std::vector<Boundary> boundaries;  // ascending
    size_t cursor = 0;                 // the first one after the time that was asked for last
  };
  struct Extent {
    uint32_t segment;
    uint16_t stream_track;
    int64_t start, end;
  };
  struct Run {
    uint32_t first, last;  // segments
    uint32_t range;        // in ranges_
  };
  // A part of a thread's time that a range covers.
  struct Cover {
    int64_t begin, end;
    uint32_t range;
  };

  Extent& find(uint32_t segment, uint16_t stream_track) {
    if (last_ < extents_.size() && extents_[last_].segment == segment && extents_[last_].stream_track == stream_track) {
      return extents_[last_];
    }
    return find_elsewhere(segment, stream_track);
  }
  Extent& find_elsewhere(uint32_t segment, uint16_t stream_track);
  void cut(int64_t tid, const std::vector<Cover>& covers);
  void add_backward(std::span<const BackwardInterval> backward,
                    std::unordered_map<int64_t, std::vector<Cover>>& covers) const;

  std::vector<HostRange> ranges_;  // outer ones before those within them
  std::vector<Run> runs_;          // by range
  std::unordered_map<int64_t, Thread> threads_;
  int64_t last_tid_ = INT64_MIN;
  Thread* last_thread_ = nullptr;  // null: that thread has no segments
  uint32_t segments_ = 0;
  std::vector<Extent> extents_;
  std::unordered_map<uint64_t, size_t> extent_at_;
  size_t last_ = 0;
};

}  // namespace kineto_spyre::trace
