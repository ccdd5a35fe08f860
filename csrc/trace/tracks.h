// The tracks of a device, and which piece of work stands on which.
//
// Every viewer draws a track as non-overlapping slices, and every analyser checks overlaps by track, so one track is
// one tid and one args.stream:
//
//   kernels       one track a stream, numbered as the stream; streams from 100 up: 100,000 + stream; stream 0, which
//                 some readers take for "none": the lowest free number
//   copies        100 host to device, 200 device to host, 300 device to device, and up to four more tracks each for
//                 copies that overlap
//   memset        400; memory without a launch 500; preparations 550; likewise
//   ranges        600 and up: the record_function ranges of each stream
//
// In: events with their times, in any order. Out: the track of each, Trace::tracks, counts of overlaps. What comes out
// of order marks its track as unsettled; settle() sorts such tracks out at the end, and drops exact duplicates.
//
// Kernels that overlap on one stream are a fault of the data: they keep their track and their times, and are counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/event.h"
#include "trace/trace.h"

namespace kineto_spyre::trace {

// Where the kernels of a stream stand.
struct StreamTrack {
  uint32_t device;
  uint32_t stream;
  int32_t track = -1;  // -1: nothing stands on it yet, or there was no number left for it
  int64_t last_start = INT64_MIN;
  int64_t last_end = INT64_MIN;
  bool unsettled = false;  // an overlap, a possible duplicate, or work out of order
};

class Tracks {
 public:
  // Adds tracks to trace->tracks; counts there.
  explicit Tracks(Trace* trace) : trace_(trace) {}

  // Both set event.track; false if there is no number left for another track.
  bool place_kernel(Event& event, StreamTrack& on, int64_t start, int64_t end) {
    if (!is_made(on)) [[unlikely]]
      return false;
    event.track = static_cast<uint16_t>(on.track);
    if (start < on.last_end || start <= on.last_start) [[unlikely]]
      on.unsettled = true;
    on.last_start = std::max(on.last_start, start);
    on.last_end = std::max(on.last_end, end);
    return true;
  }
  // All that is not a kernel.
  bool place_beside(Event& event, uint32_t device_id, int64_t start, int64_t end);
  // Makes the track of a stream if need be; false if there is no number left for it.
  bool is_made(StreamTrack& stream) { return stream.track >= 0 || make(stream); }
  // Stays where it is.
  StreamTrack& stream(uint32_t device_id, uint32_t stream_id);
  // Before all device work is placed again: the tracks stay, what stands on them is forgotten.
  void begin_again();
  // After all events: sorts out unsettled tracks.
  void settle(EventStore& events);
  // Sets the tracks of ranges (until then a range's track is that of its stream's kernels) and their levels. Of ranges
  // with the same extent the one that comes first stands outside.
  void place_ranges(std::vector<DeviceRange>& ranges);
  // The index of the track that is added, or -1 if there is no number left.
  int32_t add(Track track);

 private:
  static constexpr size_t kMaxParallel = 5;  // tracks of one group
  static constexpr size_t kMaxTracks = 65'535;
  enum Group : uint8_t { kHtoD, kDtoH, kPtoP, kMemset, kMemory, kPrepare, kGroups };

  struct GroupTracks {
    std::vector<std::pair<uint16_t, int64_t>> tracks;  // and the end of the last event on each
    int64_t last_start = INT64_MIN;
    bool unsettled = false;
  };
  struct DeviceTracks {
    uint32_t id;
    std::deque<StreamTrack> streams;
    std::unordered_map<uint32_t, size_t> by_stream;
    GroupTracks groups[kGroups];
    int64_t range_tracks = 0;
  };
  // What has to be settled: a stream of a device, or one of its groups (streams.size() + group).
  struct Unsettled {
    size_t device, part;
    std::vector<Event*> events;
  };

  DeviceTracks& device(uint32_t id);
  [[gnu::noinline]] bool make(StreamTrack& stream);
  bool place_in_group(GroupTracks& group, Group which, const DeviceTracks& device, Event& event, int64_t start,
                      int64_t end);
  std::vector<Unsettled> gather_unsettled(EventStore& events);
  void settle_stream(const DeviceTracks& device, const StreamTrack& stream, std::vector<Event*>& events);
  void settle_group(DeviceTracks& device, Group which, std::vector<Event*>& events);
  bool drop_duplicate(Event& event, const Event& other);
  int32_t add_range_track(uint16_t stream_track, size_t number);
  static Group group_of(const Event& event);
  void number_stream_zero();

  Trace* trace_;
  std::deque<DeviceTracks> devices_;
};

}  // namespace kineto_spyre::trace
