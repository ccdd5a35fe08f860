#include "trace/tracks.h"

#include "trace/text.h"

namespace kineto_spyre::trace {
namespace {

constexpr int64_t kGroupBase[] = {100, 200, 300, 400, 500, 550};
constexpr const char* kGroupName[] = {"Memcpy (HtoD)", "Memcpy (DtoH)", "Memcpy (PtoP)", "Memset", "Memory", "Prepare"};
constexpr int64_t kRangeBase = 600;
constexpr int64_t kHighStream = 100'000;

int64_t start_of(const Event& event) { return static_cast<int64_t>(aiupti::start(event.record)); }
int64_t end_of(const Event& event) { return static_cast<int64_t>(aiupti::end(event.record)); }

bool in_order(const Event* a, const Event* b) {
  const int64_t start_a = start_of(*a);
  const int64_t start_b = start_of(*b);
  return start_a != start_b ? start_a < start_b : end_of(*a) < end_of(*b);
}

}  // namespace

Tracks::DeviceTracks& Tracks::device(uint32_t id) {
  for (DeviceTracks& device : devices_) {
    if (device.id == id) return device;
  }
  devices_.emplace_back();
  devices_.back().id = id;
  return devices_.back();
}

StreamTrack& Tracks::stream(uint32_t device_id, uint32_t stream_id) {
  DeviceTracks& on = device(device_id);
  const auto [at, added] = on.by_stream.try_emplace(stream_id, on.streams.size());
  if (added) on.streams.push_back({.device = device_id, .stream = stream_id});
  return on.streams[at->second];
}

bool Tracks::make(StreamTrack& stream) {
  // Stream 0's number is known when all others are: settle().
  const int64_t number =
      stream.stream < static_cast<uint32_t>(kGroupBase[0]) ? stream.stream : kHighStream + stream.stream;
  stream.track = add({false, stream.device, number, number * 2, "stream " + std::to_string(stream.stream)});
  return stream.track >= 0;
}

int32_t Tracks::add(Track track) {
  if (trace_->tracks.size() >= kMaxTracks) return -1;
  trace_->tracks.push_back(std::move(track));
  return static_cast<int32_t>(trace_->tracks.size() - 1);
}

Tracks::Group Tracks::group_of(const Event& event) {
  if (event.category == Category::kMemset) return kMemset;
  if (event.category == Category::kMemory) return kMemory;
  if (event.category == Category::kPrepare) return kPrepare;
  const auto copy = aiupti::kind_of(event.record) == aiupti::Kind::kCompute
                        ? aiupti::copy_kind(*aiupti::as<AIUpti_ActivityCompute>(event.record))
                        : aiupti::copy_kind(*aiupti::as<AIUpti_ActivityMemcpy>(event.record));
  switch (copy) {
    case aiupti::CopyKind::kHtoD:
      return kHtoD;
    case aiupti::CopyKind::kDtoH:
      return kDtoH;
    default:
      return kPtoP;
  }
}

bool Tracks::place_beside(Event& event, uint32_t device_id, int64_t start, int64_t end) {
  DeviceTracks& on = device(device_id);
  const Group which = group_of(event);
  return place_in_group(on.groups[which], which, on, event, start, end);
}

void Tracks::begin_again() {
  for (DeviceTracks& device : devices_) {
    for (StreamTrack& stream : device.streams) {
      stream.last_start = stream.last_end = INT64_MIN;
      stream.unsettled = false;
    }
    for (GroupTracks& group : device.groups) {
      for (auto& [track, end] : group.tracks) end = INT64_MIN;
      group.last_start = INT64_MIN;
      group.unsettled = false;
    }
  }
}

bool Tracks::place_in_group(GroupTracks& group, Group which, const DeviceTracks& device, Event& event, int64_t start,
                            int64_t end) {
  if (start <= group.last_start) group.unsettled = true;
  group.last_start = std::max(group.last_start, start);
  auto free = std::ranges::find_if(group.tracks, [&](const auto& track) { return track.second <= start; });
  if (free == group.tracks.end()) {
    if (group.tracks.size() < kMaxParallel) {
      const auto number = static_cast<int64_t>(group.tracks.size());
      std::string name = kGroupName[which];
      if (number != 0) name += ' ' + std::to_string(number + 1);
      const int64_t tid = kGroupBase[which] + number;
      const int32_t track = add({false, device.id, tid, kGroupBase[which] * 10 + number, std::move(name)});
      if (track < 0) return false;
      group.tracks.emplace_back(static_cast<uint16_t>(track), end);
    } else {
      group.unsettled = true;
    }
    free = group.tracks.end() - 1;
  }
  free->second = std::max(free->second, end);
  event.track = free->first;
  return true;
}

bool Tracks::drop_duplicate(Event& event, const Event& other) {
  if (!same_record(event, other)) return false;
  event.set(Event::kExcluded);
  trace_->count_invalid(InvalidReason::kDuplicate);
  --trace_->captured[static_cast<size_t>(event.category)];
  return true;
}

void Tracks::number_stream_zero() {
  for (DeviceTracks& device : devices_) {
    const auto zero = device.by_stream.find(0);
    if (zero == device.by_stream.end() || device.streams[zero->second].track < 0) continue;
    int64_t number = 1;
    const auto taken = [&](int64_t tid) {
      return std::ranges::any_of(device.streams, [&](const StreamTrack& s) { return s.track >= 0 && s.stream == tid; });
    };
    while (number < kGroupBase[0] && taken(number)) ++number;
    if (number == kGroupBase[0]) number = kHighStream;
    Track& track = trace_->tracks[static_cast<size_t>(device.streams[zero->second].track)];
    track.tid = number;
    track.sort = number * 2;
  }
}

std::vector<Tracks::Unsettled> Tracks::gather_unsettled(EventStore& events) {
  std::vector<Unsettled> found;  // in the order of the tracks, so that the first pair that is named is always the same
  std::unordered_map<uint16_t, size_t> slot;  // by track
  for (size_t d = 0; d < devices_.size(); ++d) {
    const DeviceTracks& device = devices_[d];
    for (size_t s = 0; s < device.streams.size(); ++s) {
      if (!device.streams[s].unsettled) continue;
      slot[static_cast<uint16_t>(device.streams[s].track)] = found.size();
      found.push_back({d, s, {}});
    }
    for (size_t g = 0; g < kGroups; ++g) {
      if (!device.groups[g].unsettled) continue;
      for (const auto& [track, end] : device.groups[g].tracks) slot[track] = found.size();
      found.push_back({d, device.streams.size() + g, {}});
    }
  }
  if (found.empty()) return found;
  events.each([&](Event& event) {
    if (event.has(Event::kExcluded)) return;
    if (const auto at = slot.find(event.track); at != slot.end()) found[at->second].events.push_back(&event);
  });
  return found;
}

void Tracks::settle(EventStore& events) {
  number_stream_zero();
  for (Unsettled& unsettled : gather_unsettled(events)) {
    DeviceTracks& device = devices_[unsettled.device];
    std::ranges::stable_sort(unsettled.events, in_order);
    if (unsettled.part < device.streams.size()) {
      settle_stream(device, device.streams[unsettled.part], unsettled.events);
    } else {
      settle_group(device, static_cast<Group>(unsettled.part - device.streams.size()), unsettled.events);
    }
  }
}

void Tracks::settle_stream(const DeviceTracks& device, const StreamTrack& stream, std::vector<Event*>& events) {
  const Event* latest = nullptr;  // of those so far, the one that ends last
  for (Event* event : events) {
    if (latest != nullptr && start_of(*event) < end_of(*latest)) {
      if (drop_duplicate(*event, *latest)) continue;
      if (trace_->overlaps++ == 0) {
        trace_->first_overlap = describe(*latest) + " and " + describe(*event) + " on stream " +
                                std::to_string(stream.stream) + " of device " + std::to_string(device.id);
      }
    } else if (latest != nullptr && start_of(*event) == start_of(*latest) && drop_duplicate(*event, *latest)) {
      continue;
    }
    if (latest == nullptr || end_of(*event) > end_of(*latest)) latest = event;
  }
}

void Tracks::settle_group(DeviceTracks& device, Group which, std::vector<Event*>& events) {
  GroupTracks& group = device.groups[which];
  for (auto& [track, end] : group.tracks) end = INT64_MIN;
  group.last_start = INT64_MIN;
  const Event* previous = nullptr;
  for (Event* event : events) {
    if (previous != nullptr && start_of(*event) == start_of(*previous) && drop_duplicate(*event, *previous)) continue;
    previous = event;
    const int64_t start = start_of(*event);
    const bool full = group.tracks.size() == kMaxParallel &&
                      std::ranges::none_of(group.tracks, [&](const auto& track) { return track.second <= start; });
    trace_->tracks_exhausted += full ? 1 : 0;
    place_in_group(group, which, device, *event, start, end_of(*event));
  }
}

int32_t Tracks::add_range_track(uint16_t stream_track, size_t number) {
  const Track stream = trace_->tracks[stream_track];
  DeviceTracks& on = device(static_cast<uint32_t>(stream.process));
  std::string name = stream.name + " ranges";
  if (number != 0) name += ' ' + std::to_string(number + 1);
  return add({false, stream.process, kRangeBase + on.range_tracks++, stream.sort - 1, std::move(name)});
}

void Tracks::place_ranges(std::vector<DeviceRange>& ranges) {
  std::ranges::stable_sort(ranges, [](const DeviceRange& a, const DeviceRange& b) {
    if (a.track != b.track) return a.track < b.track;
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  // Ranges mostly nest. Those that cross go to further tracks.
  struct Nest {
    uint16_t track;
    std::vector<int64_t> open;  // ends of the ranges that the next one may stand in
  };
  std::vector<Nest> nests;  // of one stream
  uint16_t stream_track = 0;
  std::vector<DeviceRange> placed;
  placed.reserve(ranges.size());
  for (const DeviceRange& range : ranges) {
    if (nests.empty() || range.track != stream_track) {
      nests.clear();
      stream_track = range.track;
    }
    auto at = std::ranges::find_if(nests, [&](Nest& nest) {
      while (!nest.open.empty() && nest.open.back() <= range.start) nest.open.pop_back();
      return nest.open.empty() || range.end <= nest.open.back();
    });
    if (at == nests.end()) {
      const int32_t track = add_range_track(stream_track, nests.size());
      if (track < 0) continue;
      nests.push_back({static_cast<uint16_t>(track), {}});
      at = nests.end() - 1;
    }
    placed.push_back(range);
    placed.back().track = at->track;
    at->open.push_back(range.end);
    placed.back().level = static_cast<uint16_t>(at->open.size());
  }
  ranges = std::move(placed);
}

}  // namespace kineto_spyre::trace
