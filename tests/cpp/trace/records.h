// Records, op events and ranges for the tests of csrc/trace: written by hand, read as libaiupti iterates.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "aiupti/cbid.h"
#include "trace/trace.h"

namespace kineto_spyre::trace::testing {

inline constexpr int64_t kSecond = 1'000'000'000;
inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kUs = 1'000;
inline constexpr int64_t kNow = 1'750'000'000 * kSecond;  // some day of 2025
inline constexpr uint32_t kProcess = 4242;
inline constexpr uint32_t kThread = 4243;

// The iterator of a library: keeps the place of each buffer in state of its own, and forgets it at the end.
struct TestIterator {
  static inline std::map<uint8_t*, size_t> places;
  static inline std::map<const uint8_t*, size_t> sizes;  // of records of another size

  static AIUpti_ResultTypes next(uint8_t* buffer, size_t valid, AIUpti_Activity** record) {
    size_t& place = places[buffer];
    if (place >= valid) {
      places.erase(buffer);
      return AIUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<AIUpti_Activity*>(buffer + place);
    const auto other = sizes.find(buffer + place);
    size_t size = other != sizes.end() ? other->second : aiupti::size_of(aiupti::kind_of(*record));
    place += size != 0 ? size : 64;
    return AIUPTI_SUCCESS;
  }
};

struct Kernel {
  std::string name = "kernel";
  int64_t start = 0;  // these two relative to kNow
  int64_t end = 0;
  uint64_t correlation = 0;
  uint32_t stream = 1;
  uint32_t device = 0;
  int64_t queued = INT64_MIN;  // relative to kNow; INT64_MIN: not told
};

template <class R>
constexpr bool tells_queued = requires(R record) { record.queued; };

// A callback id by its name; an SDK's header may lack some of the enumerators.
inline uint32_t cbid_named(std::string_view name) {
  for (uint32_t cbid = 0; cbid < 256; ++cbid) {
    if (aiupti::known_cbid_name(cbid) == name) return cbid;
  }
  throw std::runtime_error("no callback id is called " + std::string(name));
}
inline const uint32_t kLaunch = AIUPTI_RUNTIME_TRACE_CBID_LAUNCH_CB_CMPT;
inline const uint32_t kWait = cbid_named("aiuScheduleWait");
inline const uint32_t kMalloc = cbid_named("aiuMalloc");
inline const uint32_t kNodeCompute = cbid_named("aiuNodeCompute");        // no launch
inline const uint32_t kGraphExecution = cbid_named("aiuGraphExecution");  // nor this

struct Call {
  uint32_t cbid = kLaunch;
  int64_t start = 0;
  int64_t end = 0;
  uint64_t correlation = 0;
  uint32_t thread = kThread;
  uint64_t data = 1;
  uint32_t process = kProcess;
  bool driver = false;
};

struct Copy {
  int kind = AIUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  int64_t start = 0;
  int64_t end = 0;
  uint64_t correlation = 0;
  uint32_t stream = 1;
  uint32_t device = 0;
  uint64_t bytes = 4096;
};

// A session: records in one buffer after the other, op events by thread.
class Session {
 public:
  explicit Session(size_t buffer_bytes = 1 << 16) : buffer_bytes_(buffer_bytes) {
    options.window_begin = kNow;
    options.window_end = kNow + 10 * kSecond;
    options.process_id = kProcess;
    options.emulated = true;
  }
  ~Session() {
    for (auto& memory : memory_) {
      TestIterator::places.erase(bytes(memory));
      for (size_t i = 0; i < memory.size() * 8; i += 8) TestIterator::sizes.erase(bytes(memory) + i);
    }
  }

  void add(const Kernel& kernel) {
    AIUpti_ActivityCompute record{};
    record.kind = AIUPTI_ACTIVITY_KIND_CMPT;
    record.operation_kind = AIUPTI_ACTIVITY_OPERATION_KIND_EXECUTE;
    record.device_id = kernel.device;
    record.context_id = 1;
    record.stream_id = kernel.stream;
    record.correlation_id = static_cast<decltype(record.correlation_id)>(kernel.correlation);
    record.start = static_cast<uint64_t>(kNow + kernel.start);
    record.end = static_cast<uint64_t>(kNow + kernel.end);
    [&]<class R>(R& r) {
      if constexpr (tells_queued<R>) {
        r.queued = kernel.queued == INT64_MIN ? 0 : static_cast<uint64_t>(kNow + kernel.queued);
      }
    }(record);
    std::memcpy(record.name, kernel.name.data(), std::min(kernel.name.size(), sizeof(record.name)));
    raw(record);
  }
  void add(const Call& call) {
    AIUpti_ActivityAPI record{};
    record.kind = call.driver ? AIUPTI_ACTIVITY_KIND_DRIVER : AIUPTI_ACTIVITY_KIND_RUNTIME;
    record.cbid = static_cast<decltype(record.cbid)>(call.cbid);
    record.process_id = call.process;
    record.thread_id = call.thread;
    record.correlation_id = static_cast<decltype(record.correlation_id)>(call.correlation);
    record.start = static_cast<uint64_t>(kNow + call.start);
    record.end = static_cast<uint64_t>(kNow + call.end);
    record.data = call.data;
    raw(record);
  }
  void add(const Copy& copy) {
    AIUpti_ActivityMemcpy record{};
    record.kind = AIUPTI_ACTIVITY_KIND_MEMCPY;
    record.copy_kind = static_cast<uint8_t>(copy.kind);
    record.device_id = copy.device;
    record.stream_id = copy.stream;
    record.correlation_id = static_cast<decltype(record.correlation_id)>(copy.correlation);
    record.bytes = copy.bytes;
    record.start = static_cast<uint64_t>(kNow + copy.start);
    record.end = static_cast<uint64_t>(kNow + copy.end);
    raw(record);
  }
  // Any record, with bytes after it that this build doesn't know, or with some missing.
  template <class R>
  void raw(const R& record, ptrdiff_t more = 0) {
    const size_t size = sizeof(R) + static_cast<size_t>(more);
    if (buffers_.empty() || buffers_.back().valid + size > buffer_bytes_) new_buffer();
    capture::Buffer& buffer = buffers_.back();
    std::memcpy(buffer.data + buffer.valid, &record, std::min(size, sizeof(R)));
    if (more != 0) TestIterator::sizes[buffer.data + buffer.valid] = size;
    buffer.valid += size;
  }
  void new_buffer() {
    memory_.emplace_back(buffer_bytes_ / 8);
    buffers_.push_back({bytes(memory_.back()), buffer_bytes_, 0});
  }

  void op(uint64_t id, int64_t begin, int64_t end, int32_t tid = kThread) {
    op_event(tid, begin, id, capture::OpEventKind::kPushOp);
    op_event(tid, end, 0, capture::OpEventKind::kPopOp);
  }
  void range(uint64_t id, int64_t begin, int64_t end, int32_t tid = kThread) {
    ranges.push_back({id, tid, kNow + begin, kNow + end});
  }
  void op_event(int32_t tid, int64_t ns, uint64_t id, capture::OpEventKind kind) {
    for (capture::ThreadOpEvents& thread : threads) {
      if (thread.tid != tid) continue;
      auto at = thread.events.end();
      while (at != thread.events.begin() && (at - 1)->ns > kNow + ns) --at;
      thread.events.insert(at, {kNow + ns, id, kind});
      return;
    }
    threads.push_back({tid, 0, {{kNow + ns, id, kind}}});
  }

  // The buffers, last one first.
  void reverse() { std::reverse(buffers_.begin(), buffers_.end()); }

  Trace& make() {
    trace = {};
    TraceMaking(Input{buffers_, threads, next_record}, options, &events, &trace).add_ranges(ranges, backward);
    all.clear();
    events.each([&](Event& event) {
      if (!event.has(Event::kExcluded)) all.push_back(&event);
    });
    return trace;
  }

  std::vector<const Event*> of(aiupti::Kind kind) const {
    std::vector<const Event*> found;
    for (const Event* event : all) {
      if (aiupti::kind_of(event->record) == kind) found.push_back(event);
    }
    return found;
  }
  const Event& kernel(std::string_view name) const {
    for (const Event* event : all) {
      if (aiupti::kind_of(event->record) == aiupti::Kind::kCompute &&
          aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(event->record)) == name) {
        return *event;
      }
    }
    throw std::runtime_error("no kernel " + std::string(name) + " in the trace");
  }
  uint64_t op_of(const Event& event) const { return event.link == 0 ? 0 : trace.ops.at(event.link - 1); }
  const Track& track_of(const Event& event) const { return trace.tracks.at(event.track); }
  static int64_t start_of(const Event& event) { return static_cast<int64_t>(aiupti::start(event.record)) - kNow; }
  static int64_t duration_of(const Event& event) {
    return static_cast<int64_t>(aiupti::end(event.record) - aiupti::start(event.record));
  }
  uint64_t invalid(InvalidReason reason) const { return trace.invalid[static_cast<size_t>(reason)]; }
  uint64_t captured(Category category) const { return trace.captured[static_cast<size_t>(category)]; }
  bool adds_up() const {
    return trace.records_read ==
               trace.total_captured() + trace.total_invalid() + trace.out_of_window + trace.not_requested &&
           trace.total_captured() == all.size();
  }

  Options options;
  NextRecord next_record = &TestIterator::next;
  std::vector<capture::ThreadOpEvents> threads;
  std::vector<HostRange> ranges;
  std::vector<BackwardInterval> backward;
  PlainEventStore events;
  Trace trace;
  std::vector<const Event*> all;

 private:
  static uint8_t* bytes(std::vector<uint64_t>& memory) { return reinterpret_cast<uint8_t*>(memory.data()); }

  size_t buffer_bytes_;
  std::vector<std::vector<uint64_t>> memory_;
  std::vector<capture::Buffer> buffers_;
};

}  // namespace kineto_spyre::trace::testing
