// The launching call of each correlation id.
//
// In: host calls, by the launch joiner; the ends of their work, by the device events. Out: a launch by its id, and a
// small number for each id. Events belong to the EventStore; a launch stays where it is until the next one is made.
//
// A runtime counts its calls, so the ids of a session are a range, nearly without gaps: launches stand in segments of
// 65,536, found by an id's distance from a base. Ids that lie too far apart for that (wrapped, random, 64 bits wide)
// are kept in a hash map. A segment takes memory as it is used, and new ones are had only while they are worth it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "capture/prefaulted_region.h"
#include "trace/event.h"

namespace kineto_spyre::trace {

// Of the host records of one id, the one that stands for it. All zero: none.
struct Launch {
  int64_t start;
  Event* event;         // with rank 0: a call of another process
  int64_t work_end;     // the latest end of its device work so far; 0: none
  uint32_t op;          // as OpTimeline::at() tells
  uint32_t tid : 28;    // the thread whose ranges own the work
  uint32_t joined : 1;  // device work was placed by this event's time, track and window
  uint32_t rank : 3;    // how good a launch the event is; 0: none at all
};
static_assert(sizeof(Launch) == 32);

class CorrelationTable {
 public:
  // Ids from about `first` on, about so many.
  CorrelationTable(uint64_t first, size_t expected) : base_(first - kSlack), expected_(expected) {}

  // Null if there was no host record with this id.
  Launch* find(uint64_t id) {
    const uint64_t index = id - base_;
    if (index / kSegment == current_) [[likely]] {
      Launch& launch = launches_[index % kSegment];
      return launch.event != nullptr ? &launch : nullptr;
    }
    return find_elsewhere(id, index);
  }
  // Makes it if need be.
  Launch& get(uint64_t id) {
    const uint64_t index = id - base_;
    ++count_;
    if (index / kSegment == current_) [[likely]] {
      return launches_[index % kSegment];
    }
    return get_elsewhere(id, index);
  }
  // Distinct, below kNumbers, and as long as the runtime goes on counting other than those of the sessions before:
  // readers of several profiles expect that (PyTorch's own tests do).
  uint32_t number(uint64_t id) { return id - base_ < kNear ? static_cast<uint32_t>(id % kNear) : number_far(id); }
  static constexpr uint32_t kNumbers = uint32_t{1} << 29;

 private:
  static constexpr uint64_t kSlack = 1 << 16;  // calls of threads whose buffers came later
  static constexpr uint64_t kSegment = 1 << 16;
  static constexpr uint64_t kNear = uint64_t{1} << 28;

  Launch* find_elsewhere(uint64_t id, uint64_t index);
  Launch& get_elsewhere(uint64_t id, uint64_t index);
  uint32_t number_far(uint64_t id);
  bool has_segment(uint64_t number) const { return number < segments_.size() && segments_[number].size() != 0; }
  void turn_to(uint64_t number);

  uint64_t base_;
  size_t expected_;
  uint64_t count_ = 0;
  uint64_t in_use_ = 0;                              // segments
  std::vector<capture::PrefaultedRegion> segments_;  // empty: not in use
  // The segment that was asked for last.
  uint64_t current_ = UINT64_MAX;
  Launch* launches_ = nullptr;
  std::unordered_map<uint64_t, Launch> far_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

}  // namespace kineto_spyre::trace
