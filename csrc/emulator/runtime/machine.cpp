#include "machine.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <random>
#include <unordered_set>

namespace kineto_spyre::emulator {
namespace {

constexpr uint64_t kPollNs = 10'000'000;        // how often a device's thread looks for ended work while someone traces
constexpr uint64_t kIdlePollNs = 20'000'000;    // the same while nothing is queued
constexpr uint64_t kForeignPollNs = 200'000;    // and for the functions of another device that a stream waits for
constexpr uint64_t kWaiterPollNs = 50'000'000;  // how often who waits for a point, or for room, looks for the timeout
constexpr uint64_t kFunctionPatienceNs = 100'000'000;  // how long a flush waits for a function that is running
constexpr uint64_t kSpinNs = 60'000;  // the end of a wait that a sleeping thread would miss by its timer slack
// The last part of it, in which the thread does not even yield: on a busy host that takes longer than a small copy lasts.
constexpr uint64_t kNoYieldNs = 8'000;
constexpr size_t kBatchItems = 256;
constexpr uint64_t kBatchPieces = 65536;

thread_local bool is_devices_thread = false;

bool timed_out(const Faults* faults, uint64_t began, uint64_t now) {
  return faults != nullptr && now >= began + faults->timeout_ns;
}

// When who has waited since `began` looks again, if nobody notifies before.
uint64_t next_look(const Faults* faults, uint64_t began, uint64_t now) {
  const uint64_t poll = now + kWaiterPollNs;
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

uint64_t cycles_of(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(ns) * (model::kCycleStampHz / 1e9));
}

}  // namespace

void Item::run() const {
  if (function != nullptr) {
    function(argument);
  } else if (work == WorkKind::kCopy) {
    std::memmove(destination, source, bytes);
  } else {
    std::memset(destination, value, bytes);
  }
}

void ItemQueue::push(const Item& item) {
  if (count_ == slots_.size()) {
    std::vector<Item> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = at(i);
    slots_ = std::move(larger);
    head_ = 0;
  }
  slots_[(head_ + count_) & (slots_.size() - 1)] = item;
  ++count_;
}

void ItemQueue::pop() {
  delete slots_[head_].point;
  head_ = (head_ + 1) & (slots_.size() - 1);
  --count_;
}

void ItemQueue::truncate(size_t size) {
  while (count_ > size) delete at(--count_).point;
}

Device::Device(int32_t device_index, const MachineConfig& config, uint64_t seed)
    : index(device_index), memory(config.memory_bytes), config_(config), seed_(seed) {
  streams_.push_back(std::make_unique<spyreStream_st>(*this, 1, false));
  default_stream_ = streams_.front().get();
  batch_.reserve(kBatchItems);
  // The program's signal handlers are not for this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), ("spyre-dev" + std::to_string(index)).c_str());
}

Device::~Device() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  thread_.join();
}

DeviceClock Device::clock() const {
  const Faults* faults = current_faults();
  return faults == nullptr ? DeviceClock{} : faults->clocks[static_cast<size_t>(index)];
}

spyreStream_st* Device::create_stream() {
  std::lock_guard lock(mutex_);
  if (streams_.size() == kMaxStreams) return nullptr;
  streams_.push_back(std::make_unique<spyreStream_st>(*this, static_cast<uint32_t>(streams_.size() + 1), true));
  return streams_.back().get();
}

spyreStream_st* Device::stream(uint32_t id) {
  std::lock_guard lock(mutex_);
  while (streams_.size() < id) {
    streams_.push_back(std::make_unique<spyreStream_st>(*this, static_cast<uint32_t>(streams_.size() + 1), false));
  }
  return streams_[id - 1].get();
}

void Device::destroy_stream(spyreStream_st& stream) {
  std::lock_guard lock(mutex_);
  stream.destroyed = true;
}

bool Device::has_live_streams() {
  std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) {
    if (stream->owned_by_program && !stream->destroyed) return true;
  }
  return false;
}

void Device::place(spyreStream_st& stream, Item& item) {
  item.start_ns = std::max(item.queued_ns + model::kLaunchLatencyNs, stream.ready_ns);
  if (stream.tail_ns != 0) item.start_ns = std::max(item.start_ns, stream.tail_ns + model::kLaunchGapNs);
  stream.cycles += cycles_of(model::kLaunchGapNs);
  item.cycles = stream.cycles;
  item.placed = true;
  if (!item.open_end && item.hung_by == nullptr) finish(stream, item);
}

void Device::finish(spyreStream_st& stream, Item& item) {
  stream.tail_ns = item.end_ns();
  stream.cycles += cycles_of(item.busy_ns());
}

SubmitResult Device::submit(spyreStream_st& stream, Item& item, bool modelled, std::shared_ptr<Point>* point) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (stream.queue.size() >= model::kLaunchQueueDepth && !is_devices_thread && !lost()) [[unlikely]] {
      return SubmitResult::kFull;
    }
    if (Faults* faults = current_faults(); faults != nullptr) [[unlikely]] {
      const auto self = static_cast<size_t>(index);
      if (!lost() && faults->device_lost[self].used_up()) lose(host_now_ns());
      if (item.work == WorkKind::kKernel && faults->hang[self].reached()) item.hung_by = faults;
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
      const Item& front = stream.queue.front();
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

std::shared_ptr<Point> Device::mark_locked(spyreStream_st& stream, uint64_t now) {
  auto point = std::make_shared<Point>();
  point->stream = &stream;
  point->functions = stream.functions;
  if (stream.unplaced == 0) {
    point->end_ns.store(std::max({stream.tail_ns, stream.ready_ns, now}), std::memory_order_release);
  } else {
    Item item;
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
    Item item;
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

bool Device::hangs_before(const Point& point, const Faults* faults, std::vector<std::shared_ptr<Point>>* awaited) {
  std::lock_guard lock(mutex_);
  if (point.time() != kUnknown) return false;  // all before it has an end
  ItemQueue& queue = point.stream->queue;
  for (size_t i = 0; i < queue.size(); ++i) {
    const Item& item = queue.at(i);
    if (item.hung_by == faults) return true;
    if (item.item == ItemKind::kMarker && item.point->get() == &point) break;
    if (item.item == ItemKind::kWait && (*item.point)->time() == kUnknown) awaited->push_back(*item.point);
  }
  return false;
}

void Device::look_again(bool mend) {
  {
    std::lock_guard lock(mutex_);
    if (mend) lost_.store(false, std::memory_order_release);
  }
  work_.notify_all();
  progress_.notify_all();
}

// How many of the queue's oldest items were over by then: only their records are still to be handed out.
size_t Device::ended(spyreStream_st& stream, uint64_t now) {
  for (size_t i = 0; i < stream.queue.size(); ++i) {
    Item& item = stream.queue.at(i);
    const bool whole = item.item == ItemKind::kWork && item.placed && !item.open_end && item.hung_by == nullptr &&
                       (!item.has_function || item.has_run);
    if (!whole || item.start_ns + item.duration_ns > now) return i;
    if (item.end_ns() > now) {
      item.count = (now - item.start_ns - item.duration_ns) / item.period_ns() + 1;
      return i + 1;
    }
  }
  return stream.queue.size();
}

void Device::lose(uint64_t now) {
  lost_.store(true, std::memory_order_release);
  ++generation_;
  for (const auto& stream : streams_) {
    const size_t kept = ended(*stream, now);
    for (size_t i = kept; i < stream->queue.size(); ++i) {
      if (const Item& item = stream->queue.at(i); item.item == ItemKind::kMarker) {
        (*item.point)->lost.store(true, std::memory_order_relaxed);
        (*item.point)->end_ns.store(now, std::memory_order_release);
      }
    }
    stream->queue.truncate(kept);
    stream->tail_ns = std::min(stream->tail_ns, now);
    stream->ready_ns = std::min(stream->ready_ns, now);
    stream->unplaced = 0;
    stream->functions_run.store(stream->functions, std::memory_order_release);
  }
  progress_.notify_all();
}

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
bool Device::try_place(spyreStream_st& stream, Item& item, const Faults* faults, uint64_t now) {
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

// Moves a stream on as far as it is due at `now`. True if something moved.
bool Device::step(std::unique_lock<std::mutex>& lock, spyreStream_st& stream, uint64_t now, uint64_t* deadline) {
  const Faults* faults = current_faults();
  const uint64_t late = faults == nullptr ? 0 : faults->late_ns;
  const bool early = faults != nullptr && faults->early;
  const bool tracing = current_tracer() != nullptr;
  bool moved = false;
  uint64_t pieces = 0;
  batch_.clear();
  while (!stream.queue.empty() && batch_.size() < kBatchItems && pieces < kBatchPieces) {
    Item& item = stream.queue.front();
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
      const uint64_t generation = generation_;
      const Item running = item;  // the queue may move while the lock is off
      running_ = true;
      lock.unlock();
      const uint64_t begin = host_now_ns();
      running.run();
      const uint64_t end = host_now_ns();
      lock.lock();
      running_ = false;
      moved = true;
      if (generation_ != generation) break;  // lost meanwhile
      Item& same = stream.queue.front();
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
      continue;
    }
    if (item.traced && tracing) {
      uint64_t due = item.count;
      if (!early) {
        if (now < item.start_ns + item.duration_ns + late) {
          due = 0;
        } else {
          due = std::min(item.count, (now - late - item.start_ns - item.duration_ns) / item.period_ns() + 1);
        }
      }
      due = std::min(due, item.emitted + (kBatchPieces - pieces));
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

void Device::hand_out(const std::vector<Item>& batch, const spyreStream_st& stream, const Faults* faults) {
  const spyreTracer* tracer = current_tracer();
  if (tracer == nullptr) return;
  const bool reversed = faults != nullptr && faults->shuffle;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Item& item = batch[reversed ? batch.size() - 1 - i : i];
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
        .clock = clock(),
    };
    tracer->device_work(work);
  }
}

Machine::Machine(const MachineConfig& wanted) : config(wanted) {
  const uint64_t seed =
      config.has_seed ? config.seed : (uint64_t{std::random_device{}()} << 32 | std::random_device{}());
  for (int32_t i = 0; i < config.devices; ++i) devices.push_back(std::make_unique<Device>(i, config, seed));
}

bool Machine::in_use() {
  if (events.load(std::memory_order_relaxed) != 0) return true;
  for (const auto& device : devices) {
    if (!device->memory.empty() || device->has_live_streams()) return true;
  }
  return false;
}

}  // namespace kineto_spyre::emulator
