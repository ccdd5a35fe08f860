// What the submitting thread does: gives work its place where that is known, and queues what has to be done.
#include <algorithm>

#include "machine.h"

namespace kineto_spyre::emulator {

void Device::place(spyreStream_st& stream, WorkItem& item) {
  item.start_ns = std::max(item.queued_ns + model::kLaunchLatencyNs, stream.ready_ns);
  if (stream.tail_ns != 0) item.start_ns = std::max(item.start_ns, stream.tail_ns + model::kLaunchGapNs);
  stream.cycles += cycles_of(model::kLaunchGapNs);
  item.cycles = stream.cycles;
  item.placed = true;
  if (!item.open_end && item.hung_by == nullptr) finish(stream, item);
}

void Device::finish(spyreStream_st& stream, WorkItem& item) {
  stream.tail_ns = item.end_ns();
  stream.cycles += cycles_of(item.busy_ns());
  if (item.work == WorkKind::kKernel) {
    scratchpad_largest_ = std::max(scratchpad_largest_, item.cost.scratchpad_bytes);
    scratchpad_kernels_ += item.count;
    if (item.cost.spills) scratchpad_spills_ += item.count;
  }
  if (meter_ != nullptr) [[unlikely]]
    meter(item);
}

SubmitResult Device::submit(spyreStream_st& stream, WorkItem& item, bool modelled, std::shared_ptr<Point>* point) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (stream.queue.size() >= model::kLaunchQueueDepth && !on_a_devices_thread() && !lost()) [[unlikely]] {
      return SubmitResult::kFull;
    }
    if (Faults* faults = current_faults(); faults != nullptr) [[unlikely]] {
      const auto self = static_cast<size_t>(index);
      if (!lost() && faults->device_lost[self].used_up()) lose(host_now_ns());
      if (item.work == WorkKind::kKernel && faults->hang[self].reached()) item.hung_by = faults;
      if (modelled) throttle(item);
    }
    if (lost()) return SubmitResult::kLost;
    const uint64_t sequence = stream.sequence++, queued_ns = item.queued_ns;
    if (modelled) {
      const double factor = model::jitter(seed_, static_cast<uint32_t>(index), stream.id, sequence);
      item.duration_ns = static_cast<uint64_t>(static_cast<double>(item.duration_ns) * factor);
    }
    if (item.has_function) ++stream.functions;
    const bool endless = item.open_end || item.hung_by != nullptr;
    if (stream.unplaced == 0) place(stream, item);
    if (endless || !item.placed) ++stream.unplaced;
    if (item.traced || item.has_function || endless || !item.placed) {
      wake = asleep_ && item.has_function;
      stream.queue.push(item);
    }
    if (point != nullptr) *point = mark_locked(stream, queued_ns);
  }
  if (wake) work_.notify_one();
  return SubmitResult::kSubmitted;
}

std::shared_ptr<Point> Device::mark_locked(spyreStream_st& stream, uint64_t now) {
  auto point = std::make_shared<Point>();
  point->stream = &stream;
  point->functions = stream.functions;
  if (stream.unplaced == 0) {
    point->end_ns.store(std::max({stream.tail_ns, stream.ready_ns, now}), std::memory_order_release);
  } else {
    WorkItem item;
    item.item = ItemKind::kMarker;
    item.queued_ns = now;
    item.point = new std::shared_ptr<Point>(point);
    ++stream.unplaced;
    stream.queue.push(item);
  }
  return point;
}

std::shared_ptr<Point> Device::mark(spyreStream_st& stream) {
  const uint64_t now = host_now_ns();
  std::lock_guard lock(mutex_);
  return mark_locked(stream, now);
}

void Device::wait_for(spyreStream_st& stream, const std::shared_ptr<Point>& point) {
  const uint64_t now = host_now_ns();
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    const uint64_t time = point->time();
    const bool placeable = stream.unplaced == 0 && time != kUnknown;
    if (placeable) stream.ready_ns = std::max(stream.ready_ns, time);
    // In its own stream, order is enough.
    if (point->stream == &stream || (placeable && point->functions_have_run())) return;
    WorkItem item;
    item.item = ItemKind::kWait;
    item.queued_ns = now;
    item.placed = placeable;
    item.has_function = true;
    item.point = new std::shared_ptr<Point>(point);
    ++stream.functions;
    if (!placeable) ++stream.unplaced;
    stream.queue.push(item);
    wake = asleep_;
  }
  if (wake) work_.notify_one();
}

bool Device::idle(spyreStream_st& stream) {
  const uint64_t now = host_now_ns();
  std::lock_guard lock(mutex_);
  return stream.unplaced == 0 && std::max(stream.tail_ns, stream.ready_ns) <= now &&
         stream.functions_run.load(std::memory_order_acquire) == stream.functions;
}

std::vector<std::shared_ptr<Point>> Device::unfinished() {
  std::vector<std::shared_ptr<Point>> points;
  const uint64_t now = host_now_ns();
  std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) {
    if (stream->unplaced != 0 || std::max(stream->tail_ns, stream->ready_ns) > now ||
        stream->functions_run.load(std::memory_order_acquire) != stream->functions) {
      points.push_back(mark_locked(*stream, now));
    }
  }
  return points;
}

}  // namespace kineto_spyre::emulator
