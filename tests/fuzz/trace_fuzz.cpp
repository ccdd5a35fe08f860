// Random sessions through csrc/trace: records sound, odd and torn, in any order and several buffers, notes of ops and
// ranges, walkers that misbehave. Whatever comes in, what comes out must keep its promises.
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
class Store : public ItemStore {
 public:
  Store() : ItemStore(sizeof(Item) + 8) {}

 private:
  Block allocate() override {
    constexpr size_t kItems = 8;
    blocks_.push_back(std::make_unique<std::byte[]>(kItems * (sizeof(Item) + 8)));
    return {blocks_.back().get(), kItems};
  }
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

// A buffer, and where each of its records begins; the walker goes through that list.
struct Page {
  std::vector<uint64_t> memory;
  size_t valid = 0;
  std::vector<size_t> begins;
  size_t place = 0;  // the walker's, in begins
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory.data()); }
};

std::vector<capture::Buffer> buffers(std::vector<Page>& pages) {
  std::vector<capture::Buffer> result;
  for (Page& page : pages) result.push_back({page.data(), page.memory.size() * 8, page.valid});
  return result;
}

struct Walker {
  static inline std::vector<Page>* pages;
  static inline FuzzedDataProvider* mischief;  // null: a walker that behaves

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
          note();
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
  void note() {
    const auto tid = static_cast<int32_t>(few());
    capture::ThreadOpEvents* thread = nullptr;
    for (auto& candidate : threads) {
      if (candidate.tid == tid) thread = &candidate;
    }
    if (thread == nullptr) thread = &threads.emplace_back(capture::ThreadOpEvents{tid, 0, {}});
    if (data_.ConsumeIntegral<uint8_t>() == 0) thread->lost = 1;
    const auto kind = static_cast<capture::OpEventKind>(few());
    const bool begins = kind == capture::OpEventKind::kPushOp || kind == capture::OpEventKind::kPushRange;
    thread->events.push_back({time(), begins ? ++ids_ : 0, kind});
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

 private:
  FuzzedDataProvider& data_;
  std::vector<Page> pages_;
  uint64_t ids_ = 0;
  size_t records_ = 0;
};

// What a trace shows, for comparing two.
struct Shown {
  Shown(const Trace& trace, ItemStore& items)
      : captured(trace.captured), invalid(trace.invalid), warnings(trace.warnings) {
    items.each([&](Item& item) {
      const bool dropped = item.has(Item::kExcluded);
      all.push_back({item.flags, dropped ? 0 : item.link, dropped ? 0U : item.id, dropped ? 0U : uint32_t{item.track},
                     aiupti::start(item.record), aiupti::end(item.record)});
    });
    for (const Span& span : trace.spans) {
      all.push_back(
          {span.range_id, span.track, static_cast<uint64_t>(span.start), static_cast<uint64_t>(span.end), 0, 0});
    }
    for (const Clock& clock : trace.clocks) {
      all.push_back({clock.device, clock.applied, static_cast<uint64_t>(clock.offset_ns), clock.pairs,
                     static_cast<uint64_t>(clock.earliest_ns), 0});
    }
    all.push_back({trace.out_of_window, trace.not_requested, trace.overlaps, trace.tracks_exhausted, trace.early, trace.unlinked});
  }
  bool operator==(const Shown&) const = default;

  std::vector<std::array<uint64_t, 6>> all;
  std::array<uint64_t, kCategories> captured;
  std::array<uint64_t, kInvalidReasons> invalid;
  std::vector<std::string> warnings;
};

void check(const Trace& trace, ItemStore& items, const Options& options) {
  uint64_t shown = 0;
  std::array<uint64_t, kCategories> captured{};
  std::unordered_map<uint32_t, const Item*> launches;  // by the trace's id
  std::unordered_map<uint32_t, uint64_t> raw_id;       // of device work and launches
  std::unordered_map<uint64_t, uint32_t> shown_id;
  std::unordered_map<uint16_t, std::vector<std::pair<uint64_t, uint64_t>>> copy_rows;
  items.each([&](Item& item) {
    if (item.has(Item::kExcluded)) return;
    ++shown;
    MUST(item.track < trace.tracks.size());
    const Track& track = trace.tracks[item.track];
    const uint64_t correlation = aiupti::correlation_id(item.record);
    const bool host = item.kind == aiupti::Kind::kRuntime || item.kind == aiupti::Kind::kDriver;
    MUST(track.host == host);
    MUST(item.link <= trace.ops.size());
    MUST(aiupti::start(item.record) <= aiupti::end(item.record));
    const Category category = category_of(item.kind);
    MUST(options.wanted[static_cast<size_t>(category)]);
    ++captured[static_cast<size_t>(category)];
    if (correlation != 0) {
      MUST(item.id > kIdBase && item.id < uint32_t{1} << 31);
      MUST(raw_id.try_emplace(item.id, correlation).first->second == correlation);
      MUST(shown_id.try_emplace(correlation, item.id).first->second == item.id);
    }
    if (host) {
      const auto& call = *aiupti::as<AIUpti_ActivityAPI>(item.record);
      MUST(aiupti::process_id(call) == options.process_id || aiupti::process_id(call) == 0);
      MUST(static_cast<int64_t>(call.start) >= options.window_begin);
      MUST(static_cast<int64_t>(call.start) <= options.window_end);
      if (item.has(Item::kCorrelated)) MUST(launches.try_emplace(item.id, &item).second);
      if (item.has(Item::kFlow)) MUST(item.has(Item::kCorrelated));
      if (call.thread_id != 0) MUST(track.tid == call.thread_id);
    } else {
      MUST(track.process == *aiupti::device_id(item.record));
      MUST(track.tid >= 1);
      MUST(!track.name.empty());
      MUST(item.id > kIdBase && item.id < uint32_t{1} << 31);
      MUST(item.has(Item::kCorrelated));
      if (track.tid >= 100 && track.tid < 504 && trace.tracks_exhausted == 0) {
        copy_rows[item.track].emplace_back(aiupti::start(item.record), aiupti::end(item.record));
      }
      if (item.kind == aiupti::Kind::kCompute) {
        const auto name = aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(item.record));
        MUST(name.size() <= 128);
        for (char c : safe_text(name)) MUST(c >= ' ' && c <= '~' && c != '"' && c != '\\');
      }
    }
  });
  MUST(shown == trace.total_captured());
  MUST(captured == trace.captured);
  MUST(trace.records_read == shown + trace.total_invalid() + trace.out_of_window + trace.not_requested);

  // An arrow has one begin, on the launch of its id, and its work's op is the launch's.
  items.each([&](Item& item) {
    const bool host = item.kind == aiupti::Kind::kRuntime || item.kind == aiupti::Kind::kDriver;
    if (item.has(Item::kExcluded) || host || !item.has(Item::kFlow)) return;
    const auto launch = launches.find(item.id);
    MUST(launch != launches.end());
    MUST(launch->second->has(Item::kFlow));
    MUST(item.kind == aiupti::Kind::kMemory || item.link == launch->second->link);
    // No work before its launch that is not marked so.
    const bool early = aiupti::start(item.record) < aiupti::start(launch->second->record);
    MUST(item.has(Item::kEarly) == early);
  });

  for (auto& [track, work] : copy_rows) {
    std::sort(work.begin(), work.end());
    for (size_t i = 1; i < work.size(); ++i) MUST(work[i].first >= work[i - 1].second);
  }
  std::set<std::pair<int64_t, int64_t>> rows;
  for (const Track& track : trace.tracks)
    MUST(rows.emplace(track.process + (track.host ? int64_t{1} << 40 : 0), track.tid).second);
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    MUST(span.track < trace.tracks.size() && !trace.tracks[span.track].host);
    MUST(span.start <= span.end);
    if (i != 0 && trace.spans[i - 1].track == span.track) MUST(trace.spans[i - 1].start <= span.start);
  }
  MUST(trace.clocks.size() == trace.devices.size());
  for (const Clock& clock : trace.clocks) MUST(!clock.applied || clock.pairs > 0);
  for (const std::string& warning : trace.warnings) {
    MUST(!warning.empty() && warning.back() == '.');
    MUST(safe_text(warning) == warning);
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
  // The slow path and the straight one, each on pages of its own: records may be corrected in place.
  std::vector<Page> pages = session.pages();
  const auto make = [&](std::vector<Page>& on, bool straight, Store& items) {
    FuzzedDataProvider tricks_data(tricks.data(), tricks.size());
    Walker::pages = &on;
    Walker::mischief = mischief ? &tricks_data : nullptr;
    options.straight_ways = straight;
    Trace trace = make_trace({buffers(on), session.threads, &Walker::next}, options, items);
    check(trace, items, options);
    return Shown(trace, items);
  };
  Store long_items;
  Store items;
  const Shown expected = make(session.pages(), false, long_items);
  MUST(make(pages, true, items) == expected);
  return 0;
}
