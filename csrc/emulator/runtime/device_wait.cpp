// What a waiting thread does: sleeps until a point is near, spins over the rest, and tells what is late from what never
// ends.
#include <sched.h>

#include <algorithm>
#include <unordered_set>

#include "machine.h"

namespace kineto_spyre::emulator {
namespace {

constexpr uint64_t kPollNs = 50'000'000;  // how often who waits for a point, or for room, looks for the timeout
constexpr uint64_t kSpinNs = 60'000;      // the end of a wait that a sleeping thread would miss by its timer slack
// The last part of it, in which the thread does not even yield: on a busy host that takes longer than a small copy
// lasts.
constexpr uint64_t kNoYieldNs = 8'000;

bool timed_out(const Faults* faults, uint64_t began, uint64_t now) {
  return faults != nullptr && now >= began + faults->timeout_ns;
}

// When who has waited since `began` looks again, if nobody notifies before.
uint64_t next_look(const Faults* faults, uint64_t began, uint64_t now) {
  const uint64_t poll = now + kPollNs;
  return faults == nullptr || timed_out(faults, began, now) ? poll : std::min(poll, began + faults->timeout_ns);
}

// Whether the point is behind a kernel that never ends: in its own stream, or in one that its stream waits for. Only
// such a wait times out. What is merely long, or on a busy host late, is waited for.
bool never_comes(const Point& point, const Faults* faults) {
  std::vector<std::shared_ptr<Point>> behind;
  std::unordered_set<const Point*> known{&point};
  const Point* next = &point;
  for (size_t i = 0;; ++i) {
    std::vector<std::shared_ptr<Point>> awaited;
    if (next->stream->device.hangs_before(*next, faults, &awaited)) return true;
    for (auto& found : awaited) {
      if (known.insert(found.get()).second) behind.push_back(std::move(found));
    }
    if (i == behind.size()) return false;
    next = behind[i].get();
  }
}

}  // namespace

WaitResult Device::wait(const Point& point) {
  const uint64_t began = host_now_ns();
  while (true) {
    const uint64_t time = point.time();
    const uint64_t now = host_now_ns();
    if (lost() || (time != kUnknown && point.lost.load(std::memory_order_relaxed))) return WaitResult::kLost;
    const bool run = time != kUnknown && point.functions_have_run();
    if (run && now >= time) return WaitResult::kReached;
    if (run && time - now <= kSpinNs) {
      if (time - now > kNoYieldNs) sched_yield();
      continue;
    }
    const Faults* faults = current_faults();
    if (!run && timed_out(faults, began, now) && never_comes(point, faults)) return WaitResult::kTimedOut;
    std::unique_lock lock(mutex_);
    if (lost()) continue;
    if (run) {
      progress_.wait_until(lock, host_time_point(time - kSpinNs));
    } else if (point.time() == kUnknown || !point.functions_have_run()) {
      // Both change under the mutex, and who changes them notifies. Looking again by and by is for the timeout.
      progress_.wait_until(lock, host_time_point(next_look(faults, began, now)));
    }
  }
}

WaitResult Device::wait_for_room(spyreStream_st& stream) {
  const uint64_t began = host_now_ns();
  std::unique_lock lock(mutex_);
  ++waiting_for_room_;
  work_.notify_one();
  WaitResult result = WaitResult::kReached;
  while (stream.queue.size() >= model::kLaunchQueueDepth) {
    const Faults* faults = current_faults();
    const uint64_t now = host_now_ns();
    if (lost()) {
      result = WaitResult::kLost;
      break;
    }
    if (timed_out(faults, began, now)) {
      const WorkItem& front = stream.queue.front();
      bool never = front.hung_by == faults;
      if (front.item == ItemKind::kWait) {
        const std::shared_ptr<Point> awaited = *front.point;
        lock.unlock();
        never = never_comes(*awaited, faults);
        lock.lock();
      }
      if (never) {
        result = WaitResult::kTimedOut;
        break;
      }
    }
    // The device's thread notifies. Looking again by and by is for the timeout.
    progress_.wait_until(lock, host_time_point(next_look(faults, began, now)));
  }
  --waiting_for_room_;
  return result;
}

bool Device::hangs_before(const Point& point, const Faults* faults, std::vector<std::shared_ptr<Point>>* awaited) {
  std::lock_guard lock(mutex_);
  if (point.time() != kUnknown) return false;  // all before it has an end
  WorkQueue& queue = point.stream->queue;
  for (size_t i = 0; i < queue.size(); ++i) {
    const WorkItem& item = queue.at(i);
    if (item.hung_by == faults) return true;
    if (item.item == ItemKind::kMarker && item.point->get() == &point) break;
    if (item.item == ItemKind::kWait && (*item.point)->time() == kUnknown) awaited->push_back(*item.point);
  }
  return false;
}

}  // namespace kineto_spyre::emulator
