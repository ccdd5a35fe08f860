// The emulated machine: devices, their streams, and the timeline on which work has its place.
//
// Two things happen to a piece of work, and they are kept apart:
//
//   its place   when it starts and ends on the device's timeline. Arithmetic, done at once by the thread that submits
//               it, if the end of what is before it is known:
//                 start = max(submission + launch latency, end of the stream's last work + gap, events waited for)
//                 end   = start + duration
//   its doing   running its work function (a copy's bytes, a test's callback) when the device's clock comes to its
//               start, and handing its record to the tracer when the clock has passed its end. Done by the device's
//               thread, from the stream's queue. Work without a function, submitted while nobody traces, has nothing
//               to be done: it only moves its stream's tail, no thread hears of it.
//
// Two kinds of work have an end that nobody knows when they are submitted: a function whose time is measured, and (a
// fault) a kernel that never ends. What follows them in their stream, and what waits for their events, is queued
// without a place, and the device's thread gives it one later.
//
//   submitted -> placed -> [run] -> [record delivered] -> gone
//            \-> queued without a place -> placed by the device's thread -> ...
//
// Who waits, waits for a Point: a position in a stream. It is reached when its time is known and has passed, and the
// functions before it have run.
//
// A stream's queue holds kLaunchQueueDepth entries. Who submits work to a full one waits until some are gone, as with
// real runtimes; so a host that runs ahead of its device needs no more memory than that. This can't go round in a
// circle: what an entry waits for was submitted before it. Only a device's thread, which takes entries out, never
// waits.
//
// Locks: one mutex a device guards its streams and their queues. An event's mutex guards which point it stands for.
// No two are ever held at once. The device's thread holds none while it runs work or hands records out.
//
// Waking: submitting never wakes the device's thread, unless there is a function to run. While someone traces, the
// thread looks by itself every ten milliseconds.
//
// All times in here are true, on the host's clock. A device's own clock (EmulatedClock) is applied where a time leaves.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "memory.h"
#include "metrics_writer.h"
#include "spyre_emulator/clock.h"
#include "spyre_emulator/cost_model.h"
#include "spyre_emulator/faults.h"
#include "spyre_emulator/power_meter.h"
#include "spyre_emulator/runtime.h"
#include "spyre_emulator/tracer.h"

namespace kineto_spyre::emulator {

class Device;

inline constexpr uint64_t kUnknown = UINT64_MAX;
inline constexpr uint32_t kMaxStreams = 1024;
inline constexpr size_t kBatchItems = 256;  // of one stream, whose records a device's thread hands out at once

// A position in a stream that someone may wait for.
struct Point {
  spyreStream_st* stream;
  uint64_t functions;                      // reached when this many functions of the stream have run ...
  std::atomic<uint64_t> end_ns{kUnknown};  // ... and this time has passed. Release: Point::time()'s acquire.
  std::atomic<bool> lost{false};           // relaxed: written before end_ns, read after it

  uint64_t time() const { return end_ns.load(std::memory_order_acquire); }
  bool functions_have_run() const;
};

enum class ItemKind : uint8_t { kWork, kMarker, kWait };

// One entry of a stream's queue.
struct WorkItem {
  ItemKind item = ItemKind::kWork;
  WorkKind work = WorkKind::kKernel;
  spyreMemcpyKind_t copy_kind = SPYRE_MEMCPY_HTOD;
  bool traced = false;
  bool placed = false;
  bool has_function = false;  // something is to be run
  bool has_run = false;
  bool open_end = false;  // lasts what its function takes
  uint32_t correlation = 0;
  uint64_t count = 1;
  uint64_t emitted = 0;  // pieces whose records were handed out
  uint64_t queued_ns = 0;
  uint64_t start_ns = 0;
  uint64_t duration_ns = 0;  // of each piece
  uint64_t cycles = 0;
  uint64_t bytes = 0;
  uint64_t bytes_read = 0;  // of a kernel's
  double watts = 0;         // above idle, while it lasts ...
  double joules = 0;        // ... and for its work; of each piece
  model::Cost cost;
  const Faults* hung_by = nullptr;  // never ends while these faults are in force
  void (*function)(void*) = nullptr;
  void* argument = nullptr;     // of the function
  void* destination = nullptr;  // copies and fills that are done on the device's thread
  const void* source = nullptr;
  int value = 0;
  spyreCollective_t collective{};           // that it belongs to; all zero: to none
  std::shared_ptr<Point>* point = nullptr;  // markers and waits; of the queue that holds the item
  char name[128];                           // set if traced or metered

  uint64_t period_ns() const { return duration_ns + model::kControlBlockGapNs; }
  uint64_t busy_ns() const { return count * duration_ns + (count - 1) * model::kControlBlockGapNs; }
  uint64_t end_ns() const { return start_ns + busy_ns(); }
  double piece_joules() const { return watts * static_cast<double>(duration_ns) * 1e-9 + joules; }
  Draw draw() const;  // of all pieces
  void set_name(const char* text) {
    const size_t length = strnlen(text, sizeof(name) - 1);
    std::memcpy(name, text, length);
    name[length] = '\0';
  }
  void run() const;
};

static_assert(std::is_trivially_copyable_v<WorkItem>, "items are copied on the way of each launch");

// First in, first out; grows, and never shrinks while its stream lives.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue() { truncate(0); }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  WorkItem& front() { return slots_[head_]; }
  WorkItem& at(size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }
  void push(const WorkItem& item);
  void pop();
  void truncate(size_t size);  // drops the youngest

 private:
  std::vector<WorkItem> slots_;  // a power of two
  size_t head_ = 0, count_ = 0;
};

}  // namespace kineto_spyre::emulator

// Guarded by the device's mutex, but for what says otherwise.
struct spyreStream_st {
  spyreStream_st(kineto_spyre::emulator::Device& owner, uint32_t number, bool counted)
      : device(owner), id(number), owned_by_program(counted) {}

  kineto_spyre::emulator::Device& device;
  const uint32_t id;
  const bool owned_by_program;  // keeps the machine from being made anew
  bool destroyed = false;
  uint64_t tail_ns = 0;                    // end of the last work that has a place
  uint64_t ready_ns = 0;                   // no work before this: events waited for
  uint64_t sequence = 0;                   // pieces of work so far: the draw of the next one's duration
  uint64_t cycles = 0;                     // the cycle counter: stands still while the stream has nothing to do
  uint64_t unplaced = 0;                   // items in the queue that have no place yet, or no end
  uint64_t functions = 0;                  // functions and waits that were queued ...
  std::atomic<uint64_t> functions_run{0};  // ... and that were passed. Release: functions_have_run()'s acquire.
  kineto_spyre::emulator::WorkQueue queue;
};

struct spyreEvent_st {
  explicit spyreEvent_st(int32_t device_index, bool with_timing) : device(device_index), timing(with_timing) {}

  const int32_t device;
  const bool timing;
  std::mutex mutex;
  std::shared_ptr<kineto_spyre::emulator::Point> point;  // null until it is recorded

  std::shared_ptr<kineto_spyre::emulator::Point> current() {
    std::lock_guard lock(mutex);
    return point;
  }
};

namespace kineto_spyre::emulator {

inline bool Point::functions_have_run() const {
  return stream->functions_run.load(std::memory_order_acquire) >= functions;
}

struct MachineConfig {
  int32_t devices;
  uint64_t memory_bytes;
  spyreTimeMode_t time;
  bool has_seed;
  uint64_t seed;
  bool operator==(const MachineConfig&) const = default;
};

// What the work of one name took, above idle.
struct Energy {
  double joules = 0;
  uint64_t count = 0, ns = 0;
};

enum class WaitResult { kReached, kLost, kTimedOut };
enum class SubmitResult { kSubmitted, kLost, kFull };

class Device {
 public:
  Device(int32_t index, const MachineConfig& config, uint64_t seed);
  ~Device();

  const int32_t index;
  AddressSpace memory;

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  EmulatedClock clock() const;

  spyreStream_st& default_stream() { return *default_stream_; }
  // Null if there are kMaxStreams already.
  spyreStream_st* create_stream();
  spyreStream_st* stream(uint32_t id);
  void destroy_stream(spyreStream_st& stream);
  bool has_live_streams();

  // Places and queues a piece of work. `duration` in the item: as the caller knows it, or by the model, before jitter,
  // if `modelled`. Nothing has happened if the device is lost, or the queue full. With `point`: where the work ends.
  SubmitResult submit(spyreStream_st& stream, WorkItem& item, bool modelled, std::shared_ptr<Point>* point = nullptr);
  // Until the stream's queue has room; kTimedOut as for wait().
  WaitResult wait_for_room(spyreStream_st& stream);
  // The stream's present end.
  std::shared_ptr<Point> mark(spyreStream_st& stream);
  // Nothing that is submitted to the stream later starts before the point is reached.
  void wait_for(spyreStream_st& stream, const std::shared_ptr<Point>& point);
  bool idle(spyreStream_st& stream);
  std::vector<std::shared_ptr<Point>> unfinished();

  // kTimedOut: the point is behind a kernel that never ends (a fault), and the faults' timeout has passed.
  WaitResult wait(const Point& point);
  // Whether such a kernel is queued before the point, which is one of this device. Adds the points that its stream
  // waits for before it, and whose time is unknown.
  bool hangs_before(const Point& point, const Faults* faults, std::vector<std::shared_ptr<Point>>* awaited);

  // Wakes the thread: the faults or the tracer changed.
  void look_again(bool mend);
  // From now on, what work draws is added up. Work that was placed before is not.
  void start_meter(uint64_t now_ns);
  bool metered() const { return metered_.load(std::memory_order_relaxed); }
  // What was drawn above idle since the last call, or since the start.
  Draw read_meter(uint64_t now_ns);
  double celsius();
  // By name, of the work that has had its place since the meter was started.
  std::map<std::string, Energy> energy();
  // Of the kernels that had their place since the start, or the last reset.
  spyreScratchpad_t scratchpad();
  void reset_scratchpad();

  // Asks for a pass over all queues, and waits for the end of it; not for a function that goes on and on.
  void deliver();

 private:
  void meter(const WorkItem& item);
  void throttle(WorkItem& item) const;
  static bool on_a_devices_thread();  // which never waits for room
  void place(spyreStream_st& stream, WorkItem& item);
  void finish(spyreStream_st& stream, WorkItem& item);
  bool try_place(spyreStream_st& stream, WorkItem& item, const Faults* faults, uint64_t now);
  std::shared_ptr<Point> mark_locked(spyreStream_st& stream, uint64_t now);
  void lose(uint64_t now);
  static size_t ended(spyreStream_st& stream, uint64_t now);
  void loop();
  bool anything_queued();
  bool pass(std::unique_lock<std::mutex>& lock, uint64_t now, uint64_t* deadline);
  bool step(std::unique_lock<std::mutex>& lock, spyreStream_st& stream, uint64_t now, uint64_t* deadline);
  bool run_front(std::unique_lock<std::mutex>& lock, spyreStream_st& stream);
  void hand_out(const std::vector<WorkItem>& batch, const spyreStream_st& stream, const Faults* faults);

  const MachineConfig& config_;
  const uint64_t seed_;
  std::mutex mutex_;
  std::condition_variable work_;                          // the device's thread waits: for work, for the next deadline
  std::condition_variable progress_;                      // others wait: for points
  std::vector<std::unique_ptr<spyreStream_st>> streams_;  // id - 1
  spyreStream_st* default_stream_ = nullptr;
  std::unique_ptr<PowerMeter> meter_;
  std::map<std::string, Energy> energy_;
  uint64_t scratchpad_largest_ = 0, scratchpad_kernels_ = 0, scratchpad_spills_ = 0;
  std::atomic<bool> throttled_{false};  // relaxed: the fault, as of the last read_meter()
  std::atomic<bool> metered_{false};    // relaxed: a hint; meter_ is looked at under the mutex
  std::atomic<bool> lost_{false};       // release in lose() and look_again(): lost()'s acquire
  uint64_t generation_ = 0;             // counts losses: what the thread held in its hands is gone
  uint64_t passes_wanted_ = 0, passes_done_ = 0;
  uint64_t waiting_for_room_ = 0;
  bool asleep_ = false;
  bool running_ = false;  // the thread runs a function, without the mutex
  bool stop_ = false;
  std::vector<WorkItem> batch_;  // the device's thread's own
  std::thread thread_;
};

struct Machine {
  explicit Machine(const MachineConfig& wanted);

  const MachineConfig config;
  std::vector<std::unique_ptr<Device>> devices;
  std::atomic<int64_t> events{0};          // relaxed: a count
  std::unique_ptr<MetricsWriter> metrics;  // after the devices, which it reads; guarded as the machine is

  bool in_use();
};

extern std::atomic<const spyreTracer*> tracer_in_force;  // release in spyreSetTracer
extern std::atomic<uint32_t> correlations;               // relaxed: a counter

// Whoever traces, or null. Acquire: spyreSetTracer's release.
inline const spyreTracer* current_tracer() noexcept { return tracer_in_force.load(std::memory_order_acquire); }

// The next correlation id: never 0.
inline uint32_t next_correlation() noexcept {
  uint32_t id = 0;
  while (id == 0) id = correlations.fetch_add(1, std::memory_order_relaxed) + 1;
  return id;
}

inline uint64_t cycles_of(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(ns) * (model::kCycleStampHz / 1e9));
}

}  // namespace kineto_spyre::emulator
