// Random sessions through csrc/trace: records sound, odd and torn, in any order and several buffers, op events,
// ranges that nest or cross, iterators that misbehave. Whatever comes in, what comes out must keep its promises.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/text.h"
#include "trace/trace.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace;

namespace {

constexpr int64_t kNow = 1'750'000'000'000'000'000;
constexpr uint32_t kProcess = 42;

#define MUST(condition)                                                    \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

// Small blocks, so that their borders are met.
class Store : public EventStore {
 public:
  Store() : EventStore(sizeof(Event) + 8) {}

 private:
  Block allocate() override {
    constexpr size_t kEvents = 8;
    blocks_.push_back(std::make_unique<std::byte[]>(kEvents * (sizeof(Event) + 8)));
    return {blocks_.back().get(), kEvents};
  }
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

// A buffer, and where each of its records begins; the iterator goes through that list.
struct Page {
  std::vector<uint64_t> memory;
  size_t valid = 0;
  std::vector<size_t> begins;
  size_t place = 0;  // the iterator's, in begins
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory.data()); }
};

std::vector<capture::Buffer> buffers(std::vector<Page>& pages) {
  std::vector<capture::Buffer> result;
  for (Page& page : pages) result.push_back({page.data(), page.memory.size() * 8, page.valid});
  return result;
}

struct Iterator {
  static inline std::vector<Page>* pages;
  static inline FuzzedDataProvider* mischief;  // null: an iterator that behaves

  static AIUpti_ResultTypes next(uint8_t* buffer, size_t, AIUpti_Activity** record) {
    Page* page = nullptr;
    for (Page& candidate : *pages) {
      if (candidate.data() == buffer) page = &candidate;
    }
    MUST(page != nullptr);
    size_t& place = page->place;
    if (mischief != nullptr && mischief->remaining_bytes() != 0) {
      switch (mischief->ConsumeIntegral<uint8_t>()) {
        case 0:
          *record = nullptr;
          return AIUPTI_SUCCESS;
        case 1:
          return AIUPTI_ERROR_UNKNOWN;
        case 2:  // anywhere near the buffer
          *record = reinterpret_cast<AIUpti_Activity*>(buffer + mischief->ConsumeIntegralInRange<int>(-64, 4096));
          return AIUPTI_SUCCESS;
        case 3:  // back to some record, again
          if (!page->begins.empty()) place = mischief->ConsumeIntegral<uint8_t>() % page->begins.size();
          break;
        default:
          break;
      }
    }
    if (place >= page->begins.size()) {
      place = 0;
      return AIUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<AIUpti_Activity*>(buffer + page->begins[place++]);
    return AIUPTI_SUCCESS;
  }
};

class Session {
 public:
  explicit Session(FuzzedDataProvider& data) : data_(data) { pages_.reserve(8); }

  void fill() {
    new_page();
    while (data_.remaining_bytes() > 0 && records_ < 200) {
      const uint8_t what = data_.ConsumeIntegral<uint8_t>();
      switch (what % 12) {
        case 0:
        case 1:
          call();
          break;
        case 2:
        case 3:
        case 4:
          compute();
          break;
        case 5:
          copy();
          break;
        case 6:
          fill_memory();
          break;
        case 7:
          allocation();
          break;
        case 8:
          op_event();
          break;
        case 9:
          if (pages_.size() < 8) new_page();
          break;
        case 10:
          garbage();
          break;
        case 11:
          again();
          break;
      }
    }
  }

  int64_t time() {
    switch (data_.ConsumeIntegral<uint8_t>() % 8) {
      case 0:
        return data_.ConsumeIntegral<int64_t>();
      case 1:
        return 0;
      default:
        return kNow + data_.ConsumeIntegralInRange<int32_t>(-20'000, 2'000'000);
    }
  }
  uint32_t correlation() {
    return data_.ConsumeIntegral<uint8_t>() % 16 == 0 ? data_.ConsumeIntegral<uint32_t>()
                                                      : data_.ConsumeIntegralInRange<uint32_t>(0, 12);
  }
  uint32_t few() { return data_.ConsumeIntegralInRange<uint32_t>(0, 3); }

  template <class R>
  void times(R& record) {
    record.start = static_cast<uint64_t>(time());
    record.end = data_.ConsumeBool() ? record.start + data_.ConsumeIntegral<uint16_t>() : static_cast<uint64_t>(time());
    record.correlation_id = correlation();
  }

  void call() {
    AIUpti_ActivityAPI record{};
    record.kind = data_.ConsumeBool() ? AIUPTI_ACTIVITY_KIND_RUNTIME : AIUPTI_ACTIVITY_KIND_DRIVER;
    record.cbid = data_.ConsumeIntegralInRange<uint32_t>(0, 90);
    record.process_id = data_.ConsumeIntegral<uint8_t>() % 16 == 0 ? few() : kProcess;
    record.thread_id = few();
    record.data = data_.ConsumeIntegral<uint8_t>();
    times(record);
    put(record);
  }
  void compute() {
    AIUpti_ActivityCompute record{};
    record.kind = AIUPTI_ACTIVITY_KIND_CMPT;
    record.operation_kind = static_cast<uint8_t>(few());
    record.device_id = few();
    record.stream_id = data_.ConsumeIntegral<uint8_t>() % 16 == 0 ? data_.ConsumeIntegral<uint32_t>() : few();
    record.queued = data_.ConsumeBool() ? static_cast<uint64_t>(time()) : 0;
    const std::string name = data_.ConsumeRandomLengthString(sizeof(record.name));
    std::memcpy(record.name, name.data(), name.size());
    times(record);
    put(record);
  }
  void copy() {
    AIUpti_ActivityMemcpy record{};
    record.kind = data_.ConsumeBool() ? AIUPTI_ACTIVITY_KIND_MEMCPY : AIUPTI_ACTIVITY_KIND_MEMCPY2;
    record.copy_kind = data_.ConsumeIntegral<uint8_t>() % 5;
    record.device_id = few();
    record.stream_id = few();
    record.bytes = data_.ConsumeIntegral<uint32_t>();
    times(record);
    put(record);
  }
  void fill_memory() {
    AIUpti_ActivityMemset record{};
    record.kind = AIUPTI_ACTIVITY_KIND_MEMSET;
    record.device_id = few();
    times(record);
    put(record);
  }
  void allocation() {
    AIUpti_ActivityMemory record{};
    record.kind = AIUPTI_ACTIVITY_KIND_MEMORY;
    record.memory_operation_type = static_cast<uint8_t>(few());
    record.device_id = few();
    times(record);
    put(record);
  }
  void op_event() {
    const auto tid = static_cast<int32_t>(few());
    capture::ThreadOpEvents* thread = nullptr;
    for (auto& candidate : threads) {
      if (candidate.tid == tid) thread = &candidate;
    }
    if (thread == nullptr) thread = &threads.emplace_back(capture::ThreadOpEvents{tid, 0, {}});
    if (data_.ConsumeIntegral<uint8_t>() == 0) thread->dropped = 1;
    const auto kind = static_cast<capture::OpEventKind>(few());
    const bool begins = kind == capture::OpEventKind::kPushOp || kind == capture::OpEventKind::kPushRange;
    thread->events.push_back({time(), begins ? ++ids_ : 0, kind});
    const auto length = data_.ConsumeIntegral<uint16_t>();
    if (kind == capture::OpEventKind::kPushRange) {
      const int64_t begin = kNow + data_.ConsumeIntegralInRange<int32_t>(-20'000, 2'000'000);
      ranges.push_back({ids_, tid, begin, begin + length});
      if (data_.ConsumeBool()) backward.push_back({static_cast<int64_t>(few()), tid, begin, begin + length / 2});
    }
  }
  void garbage() {
    uint64_t words[32];
    for (uint64_t& word : words) word = data_.ConsumeIntegral<uint8_t>() * 0x0101010101010101U;
    reinterpret_cast<uint8_t*>(words)[0] = data_.ConsumeIntegral<uint8_t>();
    put_bytes(words, 8 * data_.ConsumeIntegralInRange<size_t>(1, 32));
  }
  // A record that is there already, once more.
  void again() {
    Page& page = pages_[data_.ConsumeIntegral<uint8_t>() % pages_.size()];
    if (page.begins.empty()) return;
    const size_t index = data_.ConsumeIntegral<uint8_t>() % page.begins.size();
    const size_t end = index + 1 < page.begins.size() ? page.begins[index + 1] : page.valid;
    const std::vector<uint8_t> bytes(page.data() + page.begins[index], page.data() + end);
    put_bytes(bytes.data(), bytes.size());
  }

  template <class R>
  void put(const R& record) {
    uint64_t words[(sizeof(R) + 64) / 8] = {};
    std::memcpy(words, &record, sizeof(R));
    size_t size = sizeof(R);
    switch (data_.ConsumeIntegral<uint8_t>()) {
      case 0:
        size += 40;
        break;
      case 1:
        size -= 40;
        break;
      default:
        break;
    }
    put_bytes(words, size);
  }
  void put_bytes(const void* bytes, size_t size) {
    Page& page = pages_.back();
    if (page.valid + size > page.memory.size() * 8) return;
    std::memcpy(page.data() + page.valid, bytes, size);
    page.begins.push_back(page.valid);
    page.valid += size;
    ++records_;
  }
  void new_page() { pages_.push_back({std::vector<uint64_t>(512), 0, {}, 0}); }

  std::vector<Page>& pages() { return pages_; }

  std::vector<capture::ThreadOpEvents> threads;
  std::vector<HostRange> ranges;
  std::vector<BackwardInterval> backward;

 private:
  FuzzedDataProvider& data_;
  std::vector<Page> pages_;
  uint64_t ids_ = 0;
  size_t records_ = 0;
};

void check(const Trace& trace, EventStore& events, const Options& options, const std::vector<HostRange>& ranges) {
  uint64_t shown = 0;
  std::array<uint64_t, kCategories> captured{};
  std::unordered_map<uint32_t, const Event*> launches;  // by the trace's id
  std::unordered_map<uint32_t, uint64_t> raw_id;        // of device work and launches
  std::unordered_map<uint64_t, uint32_t> shown_id;
  std::unordered_map<uint16_t, std::vector<std::pair<uint64_t, uint64_t>>> parallel;
  events.each([&](Event& event) {
    if (event.has(Event::kExcluded)) return;
    ++shown;
    MUST(event.track < trace.tracks.size());
    const Track& track = trace.tracks[event.track];
    const uint64_t correlation = aiupti::correlation_id(event.record);
    const bool host = event.is_call();
    // An allocation stands on its caller's track, if the call is known.
    if (event.category != Category::kMemory) MUST(track.host == host);
    MUST(event.link <= trace.ops.size());
    MUST(aiupti::start(event.record) <= aiupti::end(event.record));
    const Category category = event.category;
    MUST(options.wanted[static_cast<size_t>(category)]);
    ++captured[static_cast<size_t>(category)];
    if (correlation != 0) {
      MUST(event.id > kIdBase && event.id < uint32_t{1} << 31);
      MUST(raw_id.try_emplace(event.id, correlation).first->second == correlation);
      MUST(shown_id.try_emplace(correlation, event.id).first->second == event.id);
    }
    if (host) {
      const auto& call = *aiupti::as<AIUpti_ActivityAPI>(event.record);
      const uint32_t process = aiupti::process_id(call);
      MUST(process == options.process_id || process == 0 || process == trace.other_process_id);
      MUST(static_cast<int64_t>(call.start) >= options.window_begin);
      MUST(static_cast<int64_t>(call.start) <= options.window_end);
      if (event.has(Event::kCorrelated)) MUST(launches.try_emplace(event.id, &event).second);
      if (event.has(Event::kFlow)) MUST(event.has(Event::kCorrelated));
      if (call.thread_id != 0) MUST(track.tid == call.thread_id);
    } else {
      MUST(track.host || track.process == *aiupti::device_id(event.record));
      MUST(track.host || track.tid >= 1);
      MUST(track.host || !track.name.empty());
      MUST(event.id > kIdBase && event.id < uint32_t{1} << 31);
      MUST(event.has(Event::kCorrelated));
      if (!track.host && track.tid >= 100 && track.tid < 600 && trace.tracks_exhausted == 0) {
        parallel[event.track].emplace_back(aiupti::start(event.record), aiupti::end(event.record));
      }
      if (aiupti::kind_of(event.record) == aiupti::Kind::kCompute) {
        const auto name = aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(event.record));
        MUST(name.size() <= 128);
        for (char c : safe_text(name)) MUST(c >= ' ' && c <= '~' && c != '"' && c != '\\');
      }
    }
  });
  MUST(shown == trace.total_captured());
  MUST(captured == trace.captured);
  MUST(trace.records_read == shown + trace.total_invalid() + trace.out_of_window + trace.not_requested);

  // An arrow has one begin, on the launch of its id, and its work's op is the launch's.
  events.each([&](Event& event) {
    if (event.has(Event::kExcluded) || event.is_call() || !event.has(Event::kFlow)) return;
    const auto launch = launches.find(event.id);
    MUST(launch != launches.end());
    MUST(launch->second->has(Event::kFlow));
    MUST(event.category == Category::kMemory || event.link == launch->second->link);
    // No work before its launch that is not marked so.
    const bool early = aiupti::start(event.record) < aiupti::start(launch->second->record);
    MUST(event.has(Event::kEarly) == early);
    // It lies within the device's part of each range that its launch lies in.
    if (event.category == Category::kMemory) return;
    const auto& call = *aiupti::as<AIUpti_ActivityAPI>(launch->second->record);
    const auto launched = static_cast<int64_t>(call.start);
    for (const HostRange& range : ranges) {
      if (call.thread_id == 0 || range.tid != call.thread_id || launched < range.begin || launched >= range.end)
        continue;
      MUST(std::ranges::any_of(trace.ranges, [&](const DeviceRange& shown) {
        return shown.range_id == range.id && trace.tracks[shown.track].process == *aiupti::device_id(event.record) &&
               shown.start <= static_cast<int64_t>(aiupti::start(event.record)) &&
               shown.end >= static_cast<int64_t>(aiupti::end(event.record));
      }));
    }
  });

  for (auto& [track, work] : parallel) {
    std::sort(work.begin(), work.end());
    for (size_t i = 1; i < work.size(); ++i) MUST(work[i].first >= work[i - 1].second);
  }
  std::set<std::pair<int64_t, int64_t>> tracks;
  for (const Track& track : trace.tracks)
    MUST(tracks.emplace(track.process + (track.host ? int64_t{1} << 40 : 0), track.tid).second);
  for (size_t i = 0; i < trace.ranges.size(); ++i) {
    const DeviceRange& range = trace.ranges[i];
    MUST(range.track < trace.tracks.size() && !trace.tracks[range.track].host);
    MUST(range.start <= range.end);
    if (i != 0 && trace.ranges[i - 1].track == range.track) MUST(trace.ranges[i - 1].start <= range.start);
  }
  MUST(trace.clocks.size() == trace.devices.size());
  for (const DeviceClock& clock : trace.clocks) MUST(!clock.applied || clock.pairs > 0);
  for (const std::string& example : {trace.first_early, trace.first_long, trace.first_overlap}) {
    MUST(safe_text(example) == example);
  }
}

}  // namespace

// Short memories: what a few calls' stacks and a few freed megabytes don't show is not worth half of the executions.
extern "C" const char* __asan_default_options() { return "malloc_context_size=4:quarantine_size_mb=8"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  Options options;
  options.window_begin = kNow;
  options.window_end = kNow + 1'000'000;
  options.process_id = kProcess;
  options.align_clocks = data.ConsumeBool();
  if (data.ConsumeIntegral<uint8_t>() % 8 == 0) {
    for (bool& wanted : options.wanted) wanted = data.ConsumeBool();
  }
  const bool mischief = data.ConsumeIntegral<uint8_t>() % 4 == 0;
  const std::vector<uint8_t> tricks = mischief ? data.ConsumeBytes<uint8_t>(64) : std::vector<uint8_t>();

  Session session(data);
  session.fill();
  FuzzedDataProvider tricks_data(tricks.data(), tricks.size());
  Iterator::pages = &session.pages();
  Iterator::mischief = mischief ? &tricks_data : nullptr;
  Store events;
  Trace trace;
  const std::vector<capture::Buffer> lent = buffers(session.pages());
  const Input input{lent, session.threads, &Iterator::next};
  TraceMaking(input, options, &events, &trace).add_ranges(session.ranges, session.backward);
  check(trace, events, options, session.ranges);
  return 0;
}
