#include "trace/device_events.h"

namespace kineto_spyre::trace {

DeviceEvents::DeviceEvents(const Options& options, LaunchJoiner* joiner, Tracks* tracks, ClockEvidence* evidence)
    : options_(options), joiner_(*joiner), tracks_(*tracks), evidence_(*evidence) {}

void DeviceEvents::turn_to(uint32_t device, uint32_t id) {
  last_ = {device, id, &tracks_.stream(device, id), &evidence_.device(device)};
}

bool DeviceEvents::place_on_track(Event& event, const Stream& on, const Launch* launch, int64_t start, int64_t end) {
  if (event.category == Category::kKernel) [[likely]] {
    return tracks_.place_kernel(event, *on.track, start, end);
  }
  if (event.category == Category::kMemory && launch != nullptr) {
    event.track = launch->event->track;
    return true;
  }
  return tracks_.place_beside(event, on.device, start, end);
}

void DeviceEvents::exclude(Event& event, InvalidReason reason) {
  event.set(Event::kExcluded);
  ++counts_.invalid[static_cast<size_t>(reason)];
}

void DeviceEvents::mark_early(Event& event) {
  event.set(Event::kEarly);
  if (counts_.early++ == 0) first_early_ = &event;
}

void DeviceEvents::mark_long(Event& event) {
  event.set(Event::kLong);
  if (counts_.long_kernels++ == 0) first_long_ = &event;
}

void DeviceEvents::place_pending() {
  for (Event* event : pending_) {
    with_device_record(*event, [&](const auto& record) {
      place(*event, record, joiner_.table().find(aiupti::correlation_id(record)));
    });
  }
}

void DeviceEvents::place_again(EventStore& events) {
  counts_ = {};
  first_early_ = first_long_ = nullptr;
  tracks_.begin_again();
  evidence_.forget_pairs();
  unnumbered_ = 0;
  events.each([&](Event& event) {
    if (event.is_call()) event.clear(Event::kFlow);
  });
  events.each([&](Event& event) {
    if (event.is_call()) return;
    with_device_record(event, [&](const auto& record) {
      const uint64_t correlation = aiupti::correlation_id(record);
      place(event, record, correlation != 0 ? joiner_.table().find(correlation) : nullptr);
    });
  });
}

void DeviceEvents::finish(Trace* trace) const {
  for (size_t i = 0; i < kCategories; ++i) trace->captured[i] += counts_.captured[i];
  for (size_t i = 0; i < kInvalidReasons; ++i) trace->invalid[i] += counts_.invalid[i];
  trace->out_of_window += counts_.out_of_window;
  trace->not_requested += counts_.not_requested;
  trace->early = counts_.early;
  for (size_t kind = 0; kind < read_.size(); ++kind) trace->sizes[kind].read = read_[kind];
  trace->long_kernels = counts_.long_kernels;
  trace->unlinked = counts_.unlinked;
  trace->linked = counts_.linked;
  trace->prepare_operations = counts_.prepare_operations;
}

}  // namespace kineto_spyre::trace
