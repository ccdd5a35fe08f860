// From the records of device work to events on the tracks of the devices.
//
// In: the records of compute work, copies, fills and allocations that the reader found sound, each with an event that
// was appended for it; the launches that the joiner made of the host calls. Out: the event filled in (category, launch,
// op, id, track), what it adds to the evidence about the clocks, counts in Trace.
//
//   a record ---- its launch is known, or it has no correlation id ----> placed
//           \---- its launch may be in a buffer that is still to come --> pending --- place_pending() --> placed
//
// All may be placed once more, with place_again(): when work was joined to a lesser call than its launch, and after a
// device's records were corrected. So what placing counts is kept apart (Counts) until finish().
//
// Which window: the one that the launch belongs to. What warm-up launched is warm-up's, however late it runs.
//
// What a compute record is, its operation tells: a kernel, a copy (DMI, DMO), or the preparation of a kernel, which is
// counted apart and is part of the trace on request only. An allocation or a release stands on the track of the thread
// that called for it, as a call does; it has no op, because its time would count as device time of the op.
//
// Owns what is pending. Events belong to the EventStore, tracks to Tracks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "aiupti/collective.h"
#include "trace/launch_joiner.h"

namespace kineto_spyre::trace {

// How long before the window work may have been queued: the session's times of reason begin there.
inline constexpr int64_t kLongestQueueNs = int64_t{86'400} * 1'000'000'000;

class DeviceEvents {
 public:
  DeviceEvents(const Options& options, LaunchJoiner* joiner, Tracks* tracks, ClockEvidence* evidence);

  template <class R, aiupti::Kind kind>
  void add(Event& event, AIUpti_Activity* record, size_t size);
  void place_pending();
  void place_again(EventStore& events);
  // After all: adds what placing counted.
  void finish(Trace* trace) const;

  const Event* first_early() const { return first_early_; }
  const Event* first_long() const { return first_long_; }

 private:
  struct Counts {
    std::array<uint64_t, kCategories> captured{};
    std::array<uint64_t, kInvalidReasons> invalid{};
    uint64_t out_of_window = 0;
    uint64_t not_requested = 0;
    uint64_t early = 0;
    uint64_t long_kernels = 0;
    uint64_t linked = 0;
    uint64_t unlinked = 0;
    uint64_t prepare_operations = 0;
  };
  // Where the last kernel went, and where the next one most likely goes.
  struct Stream {
    uint32_t device = 0;
    uint32_t id = 0;
    StreamTrack* track = nullptr;
    ClockEvidence::DeviceEvidence* evidence = nullptr;
  };

  template <class R>
  static Category category_of(const R& record);
  template <class R>
  [[gnu::noinline]] void place(Event& event, const R& record, Launch* launch);
  // False, and the event is excluded, if it belongs to no window or to another process.
  template <class R>
  bool is_ours(Event& event, const R& record, const Launch* launch, int64_t start, int64_t end);
  [[gnu::noinline]] void exclude(Event& event, InvalidReason reason);
  [[gnu::noinline]] void mark_early(Event& event);
  [[gnu::noinline]] void mark_long(Event& event);
  const Stream& stream(uint32_t device, uint32_t id) {
    if (id != last_.id || device != last_.device || last_.track == nullptr) [[unlikely]]
      turn_to(device, id);
    return last_;
  }
  [[gnu::noinline]] void turn_to(uint32_t device, uint32_t id);
  // False if there is no number left for another track.
  bool place_on_track(Event& event, const Stream& on, const Launch* launch, int64_t start, int64_t end);

  const Options& options_;
  LaunchJoiner& joiner_;
  Tracks& tracks_;
  ClockEvidence& evidence_;
  Stream last_;
  Counts counts_;
  std::array<size_t, aiupti::kKinds> read_{};  // RecordSizes::read
  std::vector<Event*> pending_;
  uint32_t unnumbered_ = 0;  // device work without a correlation id
  const Event* first_early_ = nullptr;
  const Event* first_long_ = nullptr;
};

template <class R>
Category DeviceEvents::category_of(const R& record) {
  if constexpr (std::is_same_v<R, AIUpti_ActivityCompute>) {
    switch (aiupti::operation(record)) {
      case aiupti::Operation::kPrepare:
        return Category::kPrepare;
      case aiupti::Operation::kMoveIn:
      case aiupti::Operation::kMoveOut:
        return Category::kMemcpy;
      default:
        return Category::kKernel;
    }
  } else if constexpr (std::is_same_v<R, AIUpti_ActivityMemory>) {
    return Category::kMemory;
  } else if constexpr (std::is_same_v<R, AIUpti_ActivityMemset>) {
    return Category::kMemset;
  } else {
    return Category::kMemcpy;
  }
}

template <class R, aiupti::Kind kind>
void DeviceEvents::add(Event& event, AIUpti_Activity* record, size_t size) {
  const R& typed = *aiupti::as<R>(record);
  event.record = record;
  event.category = category_of(typed);
  event.flags = Event::kNone;
  if (size != sizeof(R)) [[unlikely]] {
    if (size < sizeof(R)) event.set(Event::kShort);
    if (options_.emulated && aiupti::has_collective_tail(typed, size)) {
      event.set(Event::kTail);
      read_[static_cast<size_t>(kind)] = size;
    }
  }
  const uint64_t correlation = aiupti::correlation_id(typed);
  Launch* launch = correlation != 0 ? joiner_.table().find(correlation) : nullptr;
  if (launch == nullptr && correlation != 0) [[unlikely]]
    return pending_.push_back(&event);
  place(event, typed, launch);
}

template <class R>
bool DeviceEvents::is_ours(Event& event, const R& record, const Launch* launch, int64_t start, int64_t end) {
  int64_t begun = start;
  int64_t ended = end;
  if (launch != nullptr) [[likely]] {
    if (launch->rank == 0) [[unlikely]] {
      exclude(event, InvalidReason::kForeignProcess);
      return false;
    }
    begun = ended = launch->start;
  } else if constexpr (std::is_same_v<R, AIUpti_ActivityCompute>) {
    // Whose clock `queued` is of is not known: only a time of reason says that work was queued before the window.
    const auto queued = static_cast<int64_t>(aiupti::queued(record).value_or(0));
    if (queued >= options_.window_begin - kLongestQueueNs) begun = std::min(begun, queued);
  }
  if (begun >= options_.window_begin && ended <= options_.window_end) [[likely]]
    return true;
  event.set(Event::kExcluded);
  ++counts_.out_of_window;
  return false;
}

template <class R>
void DeviceEvents::place(Event& event, const R& record, Launch* launch) {
  constexpr bool kIsMemory = std::is_same_v<R, AIUpti_ActivityMemory>;
  constexpr bool kIsCompute = std::is_same_v<R, AIUpti_ActivityCompute>;
  const auto start = static_cast<int64_t>(aiupti::start(record));
  const auto end = static_cast<int64_t>(aiupti::end(record));
  const uint64_t correlation = aiupti::correlation_id(record);
  event.flags = static_cast<Event::Flag>(Event::kCorrelated | (event.flags & (Event::kShort | Event::kTail)));
  event.link = 0;
  event.id = correlation != 0 ? joiner_.id_of(correlation) : kIdBase + 1 + CorrelationTable::kNumbers + unnumbered_++;
  if (launch != nullptr) [[likely]]
    launch->joined = 1;
  if (!is_ours(event, record, launch, start, end)) [[unlikely]]
    return;
  if constexpr (kIsCompute) counts_.prepare_operations += event.category == Category::kPrepare ? 1 : 0;

  const Stream& on = stream(aiupti::device_id(record), aiupti::stream_id(record));
  const bool prepares = kIsCompute && event.category == Category::kPrepare;
  if (launch != nullptr && !prepares) {
    on.evidence->add_pair(start - launch->start);
    if constexpr (!kIsMemory) launch->work_end = std::max(launch->work_end, end);
  }
  if (!options_.wants(event.category)) [[unlikely]] {
    event.set(Event::kExcluded);
    ++counts_.not_requested;
    return;
  }
  if (!place_on_track(event, on, launch, start, end)) [[unlikely]] {
    return exclude(event, InvalidReason::kTooManyTracks);
  }
  ++counts_.captured[static_cast<size_t>(event.category)];
  if (launch != nullptr) [[likely]] {
    ++counts_.linked;
    if constexpr (!kIsMemory) event.link = launch->op;
    if (!launch->event->has(Event::kExcluded)) [[likely]] {
      event.set(Event::kFlow);
      launch->event->set(Event::kFlow);
    }
    if (start < launch->start) [[unlikely]]
      mark_early(event);
  } else {
    ++counts_.unlinked;
  }
  if constexpr (kIsCompute) {
    if (end - start > kLongKernelNs && event.category == Category::kKernel) [[unlikely]]
      mark_long(event);
  }
}

}  // namespace kineto_spyre::trace
