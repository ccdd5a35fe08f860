// What a device's thread does: gives places to what had none, runs the functions of work, hands records out.
#include <algorithm>

#include "machine.h"

namespace kineto_spyre::emulator {
namespace {

constexpr uint64_t kPollNs = 10'000'000;      // how often the thread looks for ended work while someone traces
constexpr uint64_t kIdlePollNs = 20'000'000;  // the same while nothing is queued
constexpr uint64_t kForeignPollNs = 200'000;  // and for the functions of another device that a stream waits for
constexpr uint64_t kFunctionPatienceNs = 100'000'000;  // how long a flush waits for a function that is running
constexpr uint64_t kBatchPieces = 65536;

thread_local bool is_devices_thread = false;

// How many of the item's pieces have a record that may be handed out by now.
uint64_t pieces_due(const WorkItem& item, const Faults* faults, uint64_t now) {
  if (faults != nullptr && faults->early) return item.count;
  const uint64_t first = item.start_ns + item.duration_ns + (faults == nullptr ? 0 : faults->late_ns);
  return now < first ? 0 : std::min(item.count, (now - first) / item.period_ns() + 1);
}

}  // namespace

bool Device::on_a_devices_thread() { return is_devices_thread; }

void Device::deliver() {
  if (std::this_thread::get_id() == thread_.get_id()) return;  // a work function that flushes
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++passes_wanted_;
  work_.notify_all();
  const uint64_t patience = host_now_ns() + kFunctionPatienceNs;
  while (passes_done_ < wanted && !stop_ && !(running_ && host_now_ns() >= patience)) {
    progress_.wait_until(lock, host_time_point(host_now_ns() + kFunctionPatienceNs));
  }
}

void Device::loop() {
  is_devices_thread = true;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const uint64_t serving = passes_wanted_;
    // Only what is due by now, so that who waits for these passes doesn't wait for what is submitted meanwhile.
    const uint64_t now = host_now_ns();
    uint64_t deadline = kUnknown;
    while (pass(lock, now, &deadline) && !stop_) deadline = kUnknown;
    if (passes_done_ != serving || waiting_for_room_ != 0) {
      passes_done_ = serving;
      progress_.notify_all();
    }
    if (stop_ || passes_wanted_ != serving) continue;
    if (current_tracer() != nullptr) deadline = std::min(deadline, now + (anything_queued() ? kPollNs : kIdlePollNs));
    asleep_ = true;
    if (deadline == kUnknown) {
      work_.wait(lock);
    } else {
      work_.wait_until(lock, host_time_point(deadline));
    }
    asleep_ = false;
  }
  progress_.notify_all();
}

bool Device::anything_queued() {
  for (const auto& stream : streams_) {
    if (!stream->queue.empty()) return true;
  }
  return false;
}

// One pass over all streams. True if something moved, so that another pass may find more.
bool Device::pass(std::unique_lock<std::mutex>& lock, uint64_t now, uint64_t* deadline) {
  bool moved = false;
  // Streams may be added while the lock is off, never removed.
  for (size_t i = 0; i < streams_.size(); ++i) {
    spyreStream_st& stream = *streams_[i];
    if (!stream.queue.empty()) moved |= step(lock, stream, now, deadline);
  }
  return moved;
}

// Gives the item a place, if that can be known now.
bool Device::try_place(spyreStream_st& stream, WorkItem& item, const Faults* faults, uint64_t now) {
  switch (item.item) {
    case ItemKind::kMarker:
      (*item.point)
          ->end_ns.store(std::max({stream.tail_ns, stream.ready_ns, item.queued_ns}), std::memory_order_release);
      item.placed = true;
      progress_.notify_all();
      break;
    case ItemKind::kWait: {
      const uint64_t time = (*item.point)->time();
      if (time == kUnknown) return false;
      stream.ready_ns = std::max(stream.ready_ns, time);
      item.placed = true;
      break;
    }
    case ItemKind::kWork:
      if (!item.placed) place(stream, item);
      if (item.hung_by != nullptr) {
        if (item.hung_by == faults) return false;
        item.hung_by = nullptr;
        item.count = 1;
        item.duration_ns = now - std::min(now, item.start_ns);
        if (!item.open_end) finish(stream, item);
      }
      if (item.open_end) return true;  // its end is known once its function has run
      break;
  }
  --stream.unplaced;
  return true;
}

// Runs the function of the stream's oldest item, without the lock. False if the device was lost meanwhile.
bool Device::run_front(std::unique_lock<std::mutex>& lock, spyreStream_st& stream) {
  const uint64_t generation = generation_;
  const WorkItem running = stream.queue.front();  // the queue may move while the lock is off
  running_ = true;
  lock.unlock();
  const uint64_t begin = host_now_ns();
  running.run();
  const uint64_t end = host_now_ns();
  lock.lock();
  running_ = false;
  if (generation_ != generation) return false;
  WorkItem& same = stream.queue.front();
  same.has_run = true;
  if (same.open_end) {
    same.open_end = false;
    same.count = 1;
    same.duration_ns = end - std::min(begin, end);
    finish(stream, same);
    --stream.unplaced;
  }
  stream.functions_run.fetch_add(1, std::memory_order_release);
  progress_.notify_all();
  return true;
}

// Moves a stream on as far as it is due at `now`. True if something moved.
bool Device::step(std::unique_lock<std::mutex>& lock, spyreStream_st& stream, uint64_t now, uint64_t* deadline) {
  const Faults* faults = current_faults();
  const bool tracing = current_tracer() != nullptr;
  bool moved = false;
  uint64_t pieces = 0;
  batch_.clear();
  while (!stream.queue.empty() && batch_.size() < kBatchItems && pieces < kBatchPieces) {
    WorkItem& item = stream.queue.front();
    if (item.queued_ns > now) {
      *deadline = std::min(*deadline, item.queued_ns);
      break;
    }
    if (!item.placed || item.hung_by != nullptr) {
      if (!try_place(stream, item, faults, now)) {
        if (item.item == ItemKind::kWait) *deadline = std::min(*deadline, now + kForeignPollNs);
        break;
      }
      moved = true;
    }
    if (item.item == ItemKind::kWait) {
      if (!(*item.point)->functions_have_run()) {
        *deadline = std::min(*deadline, now + kForeignPollNs);
        break;
      }
      stream.functions_run.fetch_add(1, std::memory_order_release);
      progress_.notify_all();
    } else if (item.has_function && !item.has_run) {
      if (now < item.start_ns) {
        *deadline = std::min(*deadline, item.start_ns);
        break;
      }
      if (!batch_.empty()) break;  // records first: the function may take long
      moved = true;
      if (!run_front(lock, stream)) break;
      continue;
    }
    if (item.traced && tracing) {
      const uint64_t due = std::min(pieces_due(item, faults, now), item.emitted + (kBatchPieces - pieces));
      if (due > item.emitted) {
        batch_.push_back(item);
        batch_.back().count = due - item.emitted;
        pieces += due - item.emitted;
        item.emitted = due;
        moved = true;
      }
      if (item.emitted < item.count) break;  // nobody hurries: the poll finds the rest
    }
    stream.queue.pop();
    moved = true;
  }
  if (!batch_.empty()) {
    lock.unlock();
    hand_out(batch_, stream, faults);
    lock.lock();
  }
  return moved;
}

void Device::hand_out(const std::vector<WorkItem>& batch, const spyreStream_st& stream, const Faults* faults) {
  const spyreTracer* tracer = current_tracer();
  if (tracer == nullptr) return;
  const bool reversed = faults != nullptr && faults->shuffle;
  for (size_t i = 0; i < batch.size(); ++i) {
    const WorkItem& item = batch[reversed ? batch.size() - 1 - i : i];
    const uint64_t period = item.period_ns();
    // item.emitted is that of before this batch: the copy was made first.
    DeviceWork work{
        .kind = item.work,
        .copy_kind = item.copy_kind,
        .device = static_cast<uint32_t>(index),
        .stream = stream.id,
        .correlation = item.correlation,
        .name = item.name,
        .bytes = item.bytes,
        .scratchpad_bytes = item.cost.scratchpad_bytes,
        .queued_ns = item.queued_ns,
        .start_ns = item.start_ns + item.emitted * period,
        .duration_ns = item.duration_ns,
        .period_ns = period,
        .count = item.count,
        .cycles = item.cycles + item.emitted * cycles_of(period),
        .cycle_period = cycles_of(period),
        .phases = item.work == WorkKind::kKernel ? model::phases_of(item.duration_ns, item.cost) : model::Phases{},
        .reversed = reversed,
        .collective = item.collective,
        .clock = clock(),
    };
    tracer->device_work(work);
  }
}

}  // namespace kineto_spyre::emulator
