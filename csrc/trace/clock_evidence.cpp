#include "trace/clock_evidence.h"

#include <algorithm>

namespace kineto_spyre::trace {

void ClockEvidence::WaitList::sort() { std::ranges::sort(waits_); }

int64_t ClockEvidence::WaitList::end_of_first_from(int64_t ns) {
  constexpr size_t kSteps = 16;
  size_t steps = 0;
  while (cursor_ > 0 && waits_[cursor_ - 1].first >= ns && ++steps < kSteps) --cursor_;
  while (cursor_ < waits_.size() && waits_[cursor_].first < ns && ++steps < kSteps) ++cursor_;
  if (steps >= kSteps) {
    cursor_ = static_cast<size_t>(
        std::ranges::lower_bound(waits_, ns, {}, [](const auto& wait) { return wait.first; }) - waits_.begin());
  }
  return cursor_ < waits_.size() ? waits_[cursor_].second : INT64_MAX;
}

ClockEvidence::DeviceEvidence& ClockEvidence::device(uint32_t id) {
  for (DeviceEvidence& device : devices_) {
    if (device.id == id) return device;
  }
  devices_.push_back({.id = id});
  return devices_.back();
}

void ClockEvidence::forget_pairs() {
  for (DeviceEvidence& device : devices_) device = {.id = device.id};
}

void ClockEvidence::prepare() {
  for (const Wait& wait : waits_) {
    const bool known = wait.device >= 0 && std::ranges::any_of(devices_, [&](const DeviceEvidence& device) {
                         return device.id == static_cast<uint32_t>(wait.device);
                       });
    if (known) {
      by_stream_[uint64_t{static_cast<uint32_t>(wait.device)} << 32 | wait.stream].add(wait.start, wait.end);
    } else if (wait.tid != 0) {
      by_tid_[wait.tid].add(wait.start, wait.end);
    }
  }
  for (auto& [stream, waits] : by_stream_) waits.sort();
  for (auto& [tid, waits] : by_tid_) waits.sort();
}

bool ClockEvidence::behind_a_wait(CorrelationTable& table) const {
  for (const Wait& wait : waits_) {
    for (const uint64_t correlation : wait.after) {
      const Launch* launch = correlation != 0 ? table.find(correlation) : nullptr;
      if (launch != nullptr && launch->work_end > wait.end) return true;
    }
  }
  return false;
}

int64_t ClockEvidence::waited_until(uint32_t device_id, uint32_t stream, const Launch& launch) {
  const auto& call = *aiupti::as<AIUpti_ActivityAPI>(launch.event->record);
  const auto from = static_cast<int64_t>(aiupti::end(call));
  int64_t until = INT64_MAX;
  const auto consider = [&](auto& lists, auto key) {
    if (lists.empty()) return;
    const auto at = lists.find(key);
    if (at != lists.end()) until = std::min(until, at->second.end_of_first_from(from));
  };
  consider(by_stream_, uint64_t{device_id} << 32);
  if (stream != 0) consider(by_stream_, uint64_t{device_id} << 32 | stream);
  consider(by_tid_, aiupti::thread_id(call).value_or(0));
  return until;
}

void ClockEvidence::collect(EventStore& events, CorrelationTable& table, uint32_t device_id, std::vector<Bound>& upper,
                            std::vector<Bound>& lower) {
  events.each([&](Event& event) {
    if (event.is_call() || event.category == Category::kPrepare) return;
    with_device_record(event, [&](const auto& record) {
      if (aiupti::device_id(record) != device_id) return;
      const uint64_t correlation = aiupti::correlation_id(record);
      const Launch* launch = correlation != 0 ? table.find(correlation) : nullptr;
      if (launch == nullptr || launch->rank == 0) return;
      const auto start = static_cast<int64_t>(aiupti::start(record));
      const auto end = static_cast<int64_t>(aiupti::end(record));
      upper.push_back({start, start - launch->start});
      if (event.category == Category::kMemory) return;
      const int64_t waited = waited_until(device_id, aiupti::stream_id(record), *launch);
      if (waited != INT64_MAX) lower.push_back({end, end - waited});
    });
  });
}

}  // namespace kineto_spyre::trace
