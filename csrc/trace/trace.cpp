#include "trace/trace.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "aiupti/cbid.h"
#include "trace/clock_alignment.h"
#include "trace/correlation_table.h"
#include "trace/op_timeline.h"
#include "trace/tracks.h"
#include "trace/text.h"

namespace kineto_spyre::trace {
namespace {

using aiupti::Kind;

bool is_host(Kind kind) { return kind == Kind::kRuntime || kind == Kind::kDriver; }

const AIUpti_ActivityAPI& call_of(const Item& item) { return *aiupti::as<AIUpti_ActivityAPI>(item.record); }

// A call that waits for device work.
struct Wait {
  int64_t start, end;
  std::array<uint64_t, 8> after;  // the correlation ids that its thread launched last before it
  int32_t thread;                 // the timeline's number, -1: unknown
  int32_t device;                 // -1: not told
  uint32_t stream;                // 0: all of the device
};

// The first of some waits that begins at or after a time; fast for times that mostly ascend.
class WaitList {
 public:
  void add(int64_t start, int64_t end) { waits_.push_back({start, end}); }
  bool empty() const { return waits_.empty(); }
  void sort() { std::ranges::sort(waits_); }
  int64_t end_of_first_from(int64_t ns) {
    size_t steps = 0;
    while (cursor_ > 0 && waits_[cursor_ - 1].first >= ns && ++steps < 16) --cursor_;
    while (cursor_ < waits_.size() && waits_[cursor_].first < ns && ++steps < 16) ++cursor_;
    if (steps >= 16) {
      cursor_ = static_cast<size_t>(
          std::ranges::lower_bound(waits_, ns, {}, [](const auto& wait) { return wait.first; }) - waits_.begin());
    }
    return cursor_ < waits_.size() ? waits_[cursor_].second : INT64_MAX;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> waits_;
  size_t cursor_ = 0;
};

constexpr int64_t kDay = int64_t{86'400} * 1'000'000'000;

class Maker {
 public:
  Maker(const Input& input, const Options& options, ItemStore& items, Trace* trace)
      : options_(options),
        items_(items),
        trace_(trace),
        next_(input.next_record),
        timeline_(input.threads),
        launches_(first_correlation(input.buffers), expected_calls(input.buffers)),
        rows_(trace) {
    window_length_ = static_cast<uint64_t>(std::max<int64_t>(0, options.window_end - options.window_begin));
    low_ = static_cast<uint64_t>(std::max<int64_t>(1, options.window_begin - kDay));
    high_ = static_cast<uint64_t>(options.window_end + kDay);
    for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
      trace->sizes[kind].built = aiupti::size_of(static_cast<Kind>(kind));
    }
  }

  void make(std::span<const capture::Buffer> buffers) {
    size_t expected = 0;
    for (const capture::Buffer& buffer : buffers) expected += expected_in(buffer);
    items_.expect(expected);
    for (const bool host_first : {true, false}) {
      for (const capture::Buffer& buffer : buffers) {
        if (begins_with_host_call(buffer) == host_first) walk(buffer);
      }
    }
    for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
      Sizes& sizes = trace_->sizes[kind];
      if (sizes.seen == 0 && (kinds_seen_ >> kind & 1) != 0) sizes.seen = sizes.built;
    }
    finish_helpers();
    for (Item* item : put_off_) place_by_kind(*item);
    collect_waits();
    if (again_) place_again();
    if (correct_clocks()) place_again();
    add_counts();
    rows_.settle(items_);
    finish_spans();
    for (const Device& device : devices_) trace_->devices.push_back(device.clock.device);
    std::ranges::sort(trace_->devices);
    std::ranges::sort(devices_, {}, [](const Device& device) { return device.clock.device; });
    for (Device& device : devices_) trace_->clocks.push_back(std::move(device.clock));
    trace_->ops = std::move(timeline_.ops());
  }

 private:
  // --- the walk ---------------------------------------------------------------------------------------------------

  // Looks at a buffer's first record without the walker, whose place must not be touched. A guess is enough.
  static const AIUpti_Activity* peek(const capture::Buffer& buffer) {
    const auto* record = reinterpret_cast<const AIUpti_Activity*>(buffer.data);
    const size_t valid = std::min(buffer.valid, buffer.size);
    if (record == nullptr || valid == 0 || !aiupti::aligned(record)) return nullptr;
    return aiupti::size_of(aiupti::kind_of(record)) <= valid ? record : nullptr;
  }
  static bool begins_with_host_call(const capture::Buffer& buffer) {
    const AIUpti_Activity* record = peek(buffer);
    return record != nullptr && is_host(aiupti::kind_of(record));
  }
  static uint64_t first_correlation(std::span<const capture::Buffer> buffers) {
    uint64_t least = UINT64_MAX;
    for (const capture::Buffer& buffer : buffers) {
      const AIUpti_Activity* record = peek(buffer);
      const uint64_t id = record != nullptr ? aiupti::correlation_id(record) : 0;
      if (id != 0) least = std::min(least, id);
    }
    return least;
  }

  // Buffers mostly hold records of one size: of the size of their first.
  static size_t expected_in(const capture::Buffer& buffer) {
    const AIUpti_Activity* record = peek(buffer);
    const size_t size = record != nullptr ? aiupti::size_of(aiupti::kind_of(record)) : 0;
    return size != 0 ? std::min(buffer.valid, buffer.size) / size : 0;
  }
  static size_t expected_calls(std::span<const capture::Buffer> buffers) {
    size_t calls = 0;
    for (const capture::Buffer& buffer : buffers) calls += begins_with_host_call(buffer) ? expected_in(buffer) : 0;
    return calls;
  }

  void walk(const capture::Buffer& buffer) {
    const size_t valid = std::min(buffer.valid, buffer.size);
    if (buffer.data == nullptr || valid == 0) return;
    least_ = reinterpret_cast<uintptr_t>(buffer.data);
    end_ = least_ + valid;

    AIUpti_Activity* record = nullptr;
    AIUpti_ResultTypes result = next_(buffer.data, valid, &record);
    if (result == AIUPTI_SUCCESS && reinterpret_cast<uintptr_t>(record) != least_) {
      // The walker goes on where an earlier walk of a buffer at this address broke off. Run it out, and begin again.
      run_out(buffer.data, valid, record);
      record = nullptr;
      result = next_(buffer.data, valid, &record);
    }
    // A walker that never ends would hang the program: no record is smaller than 8 bytes.
    size_t steps = valid / 8 + 2;
    int errors = 0;
    AIUpti_Activity* previous = nullptr;
    uint64_t records_read = 0;
    for (; result != AIUPTI_ERROR_MAX_LIMIT_REACHED && steps != 0; --steps) {
      if (result != AIUPTI_SUCCESS) [[unlikely]] {
        if (++errors == kErrors) break;
      } else {
        ++records_read;
        if (!within(record)) [[unlikely]] {
          refuse(InvalidReason::kMalformed);
        } else {
          if (previous != nullptr) accept(previous, reinterpret_cast<uintptr_t>(record));
          previous = record;
          least_ = reinterpret_cast<uintptr_t>(record) + 1;
        }
      }
      result = next_(buffer.data, valid, &record);
    }
    if (previous != nullptr) accept(previous, end_);
    trace_->records_read += records_read;
    if (errors != 0 || result != AIUPTI_ERROR_MAX_LIMIT_REACHED) ++trace_->unfinished_reads;
  }

  void run_out(uint8_t* data, size_t valid, AIUpti_Activity* record) {
    for (size_t steps = valid / 8 + 2; steps != 0; --steps) {
      if (next_(data, valid, &record) == AIUPTI_ERROR_MAX_LIMIT_REACHED) return;
    }
  }

  // Forward only: records that share memory would be corrected through one another.
  bool within(const AIUpti_Activity* record) const {
    return reinterpret_cast<uintptr_t>(record) - least_ < end_ - least_ && aiupti::aligned(record);
  }

  void refuse(InvalidReason refusal) { ++trace_->invalid[static_cast<size_t>(refusal)]; }

  // next: where the record after this one begins.
  [[gnu::always_inline]] void accept(AIUpti_Activity* record, uintptr_t next) {
    switch (aiupti::kind_of(record)) {
      case Kind::kCompute:
        return take<AIUpti_ActivityCompute, Kind::kCompute>(record, next);
      case Kind::kMemcpy:
        return take<AIUpti_ActivityMemcpy, Kind::kMemcpy>(record, next);
      case Kind::kMemcpy2:
        return take<AIUpti_ActivityMemcpy, Kind::kMemcpy2>(record, next);
      case Kind::kMemset:
        return take<AIUpti_ActivityMemset, Kind::kMemset>(record, next);
      case Kind::kMemory:
        return take<AIUpti_ActivityMemory, Kind::kMemory>(record, next);
      case Kind::kRuntime:
        return take<AIUpti_ActivityAPI, Kind::kRuntime>(record, next);
      case Kind::kDriver:
        return take<AIUpti_ActivityAPI, Kind::kDriver>(record, next);
      case Kind::kInvalid:
      case Kind::kOther:
        return refuse(InvalidReason::kUnknownKind);
    }
  }

  template <class R, Kind kind>
  [[gnu::noinline]] void take(AIUpti_Activity* record, uintptr_t next) {
    const auto at = reinterpret_cast<uintptr_t>(record);
    const size_t room = next - at;
    kinds_seen_ |= 1U << static_cast<unsigned>(kind);
    if (room != sizeof(R)) [[unlikely]] {
      trace_->sizes[static_cast<size_t>(kind)].seen = room;
      if (room < sizeof(R)) return refuse(InvalidReason::kShorterRecord);
    }
    // The next ones are far enough apart to be fetched one by one, across pages too. What is read of a record may lie
    // in two lines of the cache, and each one that is missed costs more than all else that is done to the record.
    const char* const ahead = reinterpret_cast<const char*>(record) + kAhead * sizeof(R);
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + offsetof(R, end));
    const R& typed = *aiupti::as<R>(record);
    const uint64_t start = aiupti::start(typed);
    const uint64_t end = aiupti::end(typed);
    if (start < low_ || end > high_ || end < start) [[unlikely]] {
      return refuse(start == 0    ? InvalidReason::kStartZero
                    : end < start ? InvalidReason::kEndBeforeStart
                                  : InvalidReason::kUnreasonableTime);
    }
    Item& item = items_.append();
    if constexpr (std::is_same_v<R, AIUpti_ActivityAPI>) {
      if (kind != Kind::kRuntime || !join_straight(item, record)) join(item, record, kind);
    } else {
      if constexpr (std::is_same_v<R, AIUpti_ActivityCompute>) {
        if (place_straight(item, record, static_cast<int64_t>(start), static_cast<int64_t>(end))) return;
      }
      item.record = record;
      item.kind = kind;
      const uint64_t correlation = aiupti::correlation_id(typed);
      Launch* launch = correlation != 0 ? launches_.find(correlation) : nullptr;
      // Its launch may be in a buffer that is still to come.
      if (launch == nullptr && correlation != 0) return put_off_.push_back(&item);
      place(item, typed, launch);
    }
  }

  // --- host calls -------------------------------------------------------------------------------------------------

  // Who calls: the same thread as in the record before, nearly always.
  struct Caller {
    uint32_t process = 0;
    uint32_t tid = 0;    // as told; 0: not told
    bool known = false;  // the rest is valid
    bool foreign = false;
    bool straight = false;  // there is nothing special about its calls
    int32_t thread = -1;    // the timeline's number
    int32_t track = -1;
  };

  void turn_to(uint32_t process, uint32_t tid) {
    caller_ = {process, tid, true, process != options_.process_id && process != 0, false, -1, -1};
    if (caller_.foreign || tid == 0) return;
    caller_.thread = timeline_.thread(tid);
    caller_.track = host_track(tid);
    caller_.straight = options_.straight_ways && caller_.thread >= 0 && caller_.track >= 0 && wanted(Category::kRuntime);
  }

  bool wanted(Category category) const { return options_.wanted[static_cast<size_t>(category)]; }
  bool in_window(int64_t ns) const { return static_cast<uint64_t>(ns - options_.window_begin) <= window_length_; }

  // What join() does for the usual call: a launch under a new id, by the thread of the call before, inside the window.
  // False, and nothing is done, for any other. It is half of all records, so it is worth the few lines.
  bool join_straight(Item& item, AIUpti_Activity* record) {
    const AIUpti_ActivityAPI& call = *aiupti::as<AIUpti_ActivityAPI>(record);
    const auto start = static_cast<int64_t>(aiupti::start(call));
    const uint64_t correlation = aiupti::correlation_id(call);
    const uint32_t cbid = aiupti::cbid(call);
    if (aiupti::thread_id(call).value_or(0) != caller_.tid || aiupti::process_id(call) != caller_.process ||
        !caller_.straight || cbid >= kCbids || traits_[cbid] != (kKnown | kLaunches) || !in_window(start)) {
      return false;
    }
    Launch* launch = correlation != 0 ? launches_.fresh(correlation) : nullptr;
    if (launch == nullptr) return false;
    const OpTimeline::Place at = timeline_.at(caller_.thread, start);
    item = {record,
            at.op,
            kIdBase + 1 + launches_.number(correlation),
            static_cast<uint16_t>(caller_.track),
            Kind::kRuntime,
            Item::kCorrelated};
    *launch = {start, &item, 0, at.op, at.range, kBestRank};
    ++trace_->captured[static_cast<size_t>(Category::kRuntime)];
    return true;
  }

  [[gnu::noinline]] void join(Item& item, AIUpti_Activity* record, Kind kind) {
    const AIUpti_ActivityAPI& call = *aiupti::as<AIUpti_ActivityAPI>(record);
    const auto start = static_cast<int64_t>(aiupti::start(call));
    const uint64_t correlation = aiupti::correlation_id(call);
    const uint32_t cbid = aiupti::cbid(call);
    const uint32_t process = aiupti::process_id(call);
    const uint32_t tid = aiupti::thread_id(call).value_or(0);
    if (tid != caller_.tid || process != caller_.process || !caller_.known) [[unlikely]] {
      turn_to(process, tid);
    }
    const uint8_t traits = cbid < kCbids ? traits_[cbid] : uint8_t{0};

    OpTimeline::Place at;
    int32_t track = caller_.track;
    if (caller_.thread >= 0) {
      at = timeline_.at(caller_.thread, start);
    } else if (tid == 0) {
      int64_t only = options_.process_id;
      at = timeline_.only_one_at(start, &only);
      track = host_track(only);
    }
    item = {record, at.op, 0, static_cast<uint16_t>(track), kind, Item::kNone};
    if (caller_.foreign) [[unlikely]] {
      if (correlation != 0) {
        Launch& launch = launches_.get(correlation);
        if (launch.rank == 0) launch.item = &item;
      }
      return drop(item, InvalidReason::kForeignProcess);
    }

    if (correlation != 0) {
      item.id = kIdBase + 1 + launches_.number(correlation);
      const auto rank = static_cast<uint8_t>(1 + (kind == Kind::kRuntime ? 1 : 0) + (traits & kLaunches));
      static_assert(1 + 1 + kLaunches == kBestRank);
      Launch& launch = launches_.get(correlation);
      if (launch.item != nullptr) [[unlikely]] {
        if (launch.rank != 0 && is_duplicate(item, *launch.item)) return drop(item, InvalidReason::kDuplicate);
        if (rank > launch.rank || (rank == launch.rank && start < launch.start)) {
          launch.item->clear(Item::kCorrelated);
          again_ = again_ || launch.work_end != 0;  // work was joined to the lesser call
          launch.rank = 0;
        }
      }
      if (launch.rank == 0) {
        launch = {start, &item, launch.work_end, at.op, at.range, rank};
        item.flags = Item::kCorrelated;
      }
      if (caller_.thread < 0 && at.op == 0) helpers_.push_back(&item);
    }
    if ((traits & kWaits) != 0) [[unlikely]] {
      const uint64_t target = aiupti::data(call).value_or(UINT64_MAX);
      waits_.push_back({start, static_cast<int64_t>(aiupti::end(call)), launched_last(), caller_.thread,
                        static_cast<int32_t>(target >> 32), static_cast<uint32_t>(target)});
    }

    if (start < options_.window_begin || start > options_.window_end) [[unlikely]] {
      item.set(Item::kExcluded);
      ++trace_->out_of_window;
      return;
    }
    const auto category = static_cast<size_t>(kind == Kind::kRuntime ? Category::kRuntime : Category::kDriver);
    if (!options_.wanted[category]) [[unlikely]] {
      item.set(Item::kExcluded);
      ++trace_->not_requested;
      return;
    }
    if (track < 0) [[unlikely]] {
      return drop(item, InvalidReason::kTooManyTracks);
    }
    if ((traits & kKnown) == 0) [[unlikely]] {
      ++trace_->unknown_calls;
    }
    ++trace_->captured[category];
  }

  // The correlation ids of the launches just before the last item, which its thread wrote one after the other.
  std::array<uint64_t, 8> launched_last() {
    std::array<uint64_t, 8> ids{};
    size_t found = 0;
    items_.each_before_last(4 * ids.size(), [&](const Item& item) {
      if (item.kind != Kind::kRuntime || found == ids.size()) return;
      const uint32_t cbid = aiupti::cbid(call_of(item));
      if (cbid < kCbids && (traits_[cbid] & kLaunches) != 0) ids[found++] = aiupti::correlation_id(item.record);
    });
    return ids;
  }

  // A driver call on a helper thread belongs to the op whose runtime call has the same id.
  void finish_helpers() {
    for (Item* item : helpers_) {
      const Launch* launch = launches_.find(aiupti::correlation_id(item->record));
      if (launch != nullptr && launch->item != item) item->link = launch->op;
    }
  }

  static bool is_duplicate(const Item& a, const Item& b) {
    return a.kind == b.kind && std::memcmp(a.record, b.record, aiupti::size_of(a.kind)) == 0;
  }

  int32_t host_track(int64_t tid) {
    const auto [at, added] = host_tracks_.try_emplace(tid, -1);
    if (added) {
      // Kineto itself names the rows of threads whose ops it records. The others are the runtime's, or the program's:
      // the profiler sees no ops on threads that were started by hand.
      std::string name = timeline_.thread(tid) < 0 ? "thread " + std::to_string(tid) + " (no ops recorded)" : "";
      at->second = rows_.add({true, options_.process_id, tid, tid, std::move(name)});
    }
    return at->second;
  }

  void drop(Item& item, InvalidReason refusal) {
    item.set(Item::kExcluded);
    refuse(refusal);
  }

  // --- device work ------------------------------------------------------------------------------------------------

  struct Device {
    Clock clock;
    WaitList waits;  // for all of the device
    std::unordered_map<uint32_t, WaitList> stream_waits;
    uint64_t pairs = 0;              // of a launch and its work
    int64_t least_lead = INT64_MAX;  // work's begin minus launch's begin
  };

  template <class F>
  static void with_device_record(const Item& item, F f) {
    switch (item.kind) {
      case Kind::kCompute:
        return f(*aiupti::as<AIUpti_ActivityCompute>(item.record));
      case Kind::kMemcpy:
      case Kind::kMemcpy2:
        return f(*aiupti::as<AIUpti_ActivityMemcpy>(item.record));
      case Kind::kMemset:
        return f(*aiupti::as<AIUpti_ActivityMemset>(item.record));
      case Kind::kMemory:
        return f(*aiupti::as<AIUpti_ActivityMemory>(item.record));
      default:
        return;
    }
  }

  Device& device(uint32_t id) {
    for (Device& device : devices_) {
      if (device.clock.device == id) return device;
    }
    devices_.emplace_back();
    devices_.back().clock.device = id;
    return devices_.back();
  }

  // Where the last kernel went.
  struct LastRow {
    uint32_t device = 0;
    uint32_t stream = 0;
    Tracks::Row* row = nullptr;
    Device* on = nullptr;
  };

  // What place() does for the usual kernel: launched by a call that is known and in the trace, on the stream of the
  // kernel before, after it. False, and nothing is done, for any other. The other half of all records.
  bool place_straight(Item& item, AIUpti_Activity* record, int64_t start, int64_t end) {
    const AIUpti_ActivityCompute& kernel = *aiupti::as<AIUpti_ActivityCompute>(record);
    const uint64_t correlation = aiupti::correlation_id(kernel);
    const LastRow& last = last_row_;
    if (last.row == nullptr || aiupti::stream_id(kernel) != last.stream || aiupti::device_id(kernel) != last.device ||
        !last.row->is_next(start)) {
      return false;
    }
    Launch* launch = launches_.known(correlation);
    if (launch == nullptr || launch->item->has(Item::kExcluded) || start < launch->start ||
        end - start > kLongKernelNs) {
      return false;
    }
    last.row->last_start = start;
    last.row->last_end = end;
    item = {record,
            launch->op,
            kIdBase + 1 + launches_.number(correlation),
            static_cast<uint16_t>(last.row->track),
            Kind::kCompute,
            static_cast<Item::Flag>(Item::kCorrelated | Item::kFlow)};
    launch->item->set(Item::kFlow);
    launch->work_end = std::max(launch->work_end, end);
    last.on->least_lead = std::min(last.on->least_lead, start - launch->start);
    ++last.on->pairs;
    ++counts_.captured[static_cast<size_t>(Category::kKernel)];
    if (launch->range != 0) extend_span(launch->range, last, start, end);
    return true;
  }

  // What placing counts; apart from what the walk and the host calls count, for it may be done again.
  struct Counts {
    std::array<uint64_t, kCategories> captured{};
    std::array<uint64_t, kInvalidReasons> invalid{};
    uint64_t out_of_window = 0;
    uint64_t not_requested = 0;
    uint64_t early = 0;
    uint64_t long_kernels = 0;
    uint64_t unlinked = 0;
  };

  void place_again() {
    counts_ = {};
    first_early_ = first_long_ = nullptr;
    rows_.begin_again();
    spans_.clear();
    span_at_.clear();
    last_span_ = nullptr;
    unnumbered_ = 0;
    for (Device& device : devices_) {
      device.pairs = 0;
      device.least_lead = INT64_MAX;
    }
    items_.each([&](Item& item) {
      if (is_host(item.kind)) item.clear(Item::kFlow);
    });
    items_.each([&](Item& item) { place_by_kind(item); });
    again_ = false;
  }

  void place_by_kind(Item& item) {
    with_device_record(item, [&](const auto& record) {
      const uint64_t correlation = aiupti::correlation_id(record);
      place(item, record, correlation != 0 ? launches_.find(correlation) : nullptr);
    });
  }

  template <class R>
  [[gnu::noinline]] void place(Item& item, const R& record, Launch* launch) {
    constexpr bool kIsMemory = std::is_same_v<R, AIUpti_ActivityMemory>;
    constexpr bool kIsKernel = std::is_same_v<R, AIUpti_ActivityCompute>;
    const auto start = static_cast<int64_t>(aiupti::start(record));
    const auto end = static_cast<int64_t>(aiupti::end(record));
    const uint64_t correlation = aiupti::correlation_id(record);
    item.flags = Item::kCorrelated;
    item.link = 0;
    item.id = kIdBase + 1 + (correlation != 0 ? launches_.number(correlation) : CorrelationTable::kNumbers + unnumbered_++);

    // Work belongs to the window that its launch belongs to: what warm-up launched is warm-up's, however late it runs.
    int64_t begun = start;
    int64_t ended = end;
    if (launch != nullptr) {
      if (launch->rank == 0) [[unlikely]] {
        return drop_work(item, InvalidReason::kForeignProcess);
      }
      begun = ended = launch->start;
      launch->work_end = std::max(launch->work_end, end);
    } else if constexpr (kIsKernel) {
      const auto queued = static_cast<int64_t>(aiupti::queued(record).value_or(0));
      if (queued > 0) begun = std::min(begun, queued);
    }
    if (begun < options_.window_begin || ended > options_.window_end) [[unlikely]] {
      item.set(Item::kExcluded);
      ++counts_.out_of_window;
      return;
    }

    const uint32_t device_id = aiupti::device_id(record);
    const uint32_t stream = aiupti::stream_id(record);
    Device& on = device(device_id);
    if (launch != nullptr) {
      ++on.pairs;
      on.least_lead = std::min(on.least_lead, start - launch->start);
    }
    constexpr Category kCategory = kIsKernel                                  ? Category::kKernel
                                   : kIsMemory                                ? Category::kMemory
                                   : std::is_same_v<R, AIUpti_ActivityMemset> ? Category::kMemset
                                                                              : Category::kMemcpy;
    if (!options_.wanted[static_cast<size_t>(kCategory)]) [[unlikely]] {
      item.set(Item::kExcluded);
      ++counts_.not_requested;
      return;
    }
    if (!rows_.place(item, device_id, stream, start, end)) [[unlikely]] {
      return drop_work(item, InvalidReason::kTooManyTracks);
    }
    if constexpr (kIsKernel) {
      if (options_.straight_ways) last_row_ = {device_id, stream, &rows_.row(device_id, stream), &on};
    }
    ++counts_.captured[static_cast<size_t>(kCategory)];
    if (launch != nullptr) {
      // Not an allocation's: its time would count as device time of the op.
      if constexpr (!kIsMemory) item.link = launch->op;
      if (!launch->item->has(Item::kExcluded)) {
        item.set(Item::kFlow);
        launch->item->set(Item::kFlow);
      }
      if (start < launch->start) [[unlikely]] {
        item.set(Item::kEarly);
        if (counts_.early++ == 0) first_early_ = &item;
      }
      if constexpr (!kIsMemory) {
        if (launch->range != 0) extend_span(launch->range, {device_id, stream}, start, end);
      }
    } else {
      ++counts_.unlinked;
    }
    if constexpr (kIsKernel) {
      if (end - start > kLongKernelNs) [[unlikely]] {
        item.set(Item::kLong);
        if (counts_.long_kernels++ == 0) first_long_ = &item;
      }
    }
  }

  void drop_work(Item& item, InvalidReason refusal) {
    item.set(Item::kExcluded);
    ++counts_.invalid[static_cast<size_t>(refusal)];
  }

  void add_counts() {
    for (size_t i = 0; i < kCategories; ++i) trace_->captured[i] += counts_.captured[i];
    for (size_t i = 0; i < kInvalidReasons; ++i) trace_->invalid[i] += counts_.invalid[i];
    trace_->out_of_window += counts_.out_of_window;
    trace_->not_requested += counts_.not_requested;
    trace_->early = counts_.early;
    trace_->long_kernels = counts_.long_kernels;
    trace_->unlinked = counts_.unlinked;
  }

  // --- waits ------------------------------------------------------------------------------------------------------

  void collect_waits() {
    for (const Wait& wait : waits_) {
      const auto at = std::ranges::find(devices_, static_cast<uint32_t>(wait.device),
                                        [](const Device& device) { return device.clock.device; });
      if (wait.device >= 0 && at != devices_.end()) {
        (wait.stream == 0 ? at->waits : at->stream_waits[wait.stream]).add(wait.start, wait.end);
      } else if (wait.thread >= 0) {
        thread_waits_[wait.thread].add(wait.start, wait.end);
      }
    }
    for (Device& device : devices_) {
      device.waits.sort();
      for (auto& [stream, waits] : device.stream_waits) waits.sort();
    }
    for (auto& [thread, waits] : thread_waits_) waits.sort();
  }

  // Whether some work seems to end after the wait for it did. Looks at what each thread launched last before it waited,
  // for that ends last; collect_bounds() looks at all, if this finds reason to.
  bool behind_a_wait() {
    for (const Wait& wait : waits_) {
      for (const uint64_t correlation : wait.after) {
        const Launch* launch = correlation != 0 ? launches_.find(correlation) : nullptr;
        if (launch != nullptr && launch->work_end > wait.end) return true;
      }
    }
    return false;
  }

  // The end of the first wait that began after this launch and waited for its work; INT64_MAX if there is none.
  int64_t waited_until(Device& device, uint32_t stream, const Launch& launch) {
    const AIUpti_ActivityAPI& call = call_of(*launch.item);
    const auto from = static_cast<int64_t>(aiupti::end(call));
    int64_t until = device.waits.end_of_first_from(from);
    if (const auto at = device.stream_waits.find(stream); at != device.stream_waits.end()) {
      until = std::min(until, at->second.end_of_first_from(from));
    }
    if (const auto tid = aiupti::thread_id(call); tid && !thread_waits_.empty()) {
      const auto at = thread_waits_.find(timeline_.thread(*tid));
      if (at != thread_waits_.end()) until = std::min(until, at->second.end_of_first_from(from));
    }
    return until;
  }

  // --- record_function ranges --------------------------------------------------------------------------------------

  struct RangeSpan {
    uint32_t range;  // index plus 1
    uint16_t stream_track;
    int64_t start, end;
  };

  static void extend(RangeSpan& span, int64_t start, int64_t end) {
    span.start = std::min(span.start, start);
    span.end = std::max(span.end, end);
  }

  RangeSpan& span(uint32_t range, uint16_t track) {
    if (last_span_ != nullptr && last_span_->range == range && last_span_->stream_track == track) return *last_span_;
    const auto [at, added] = span_at_.try_emplace(uint64_t{range} << 16 | track, spans_.size());
    if (added) spans_.push_back({range, track, INT64_MAX, INT64_MIN});
    last_span_ = &spans_[at->second];
    return *last_span_;
  }

  void extend_span(uint32_t range, const LastRow& on, int64_t start, int64_t end) {
    const int32_t track = (on.row != nullptr ? *on.row : rows_.row(on.device, on.stream)).track;
    if (track >= 0) extend(span(range, static_cast<uint16_t>(track)), start, end);
  }

  // A range holds what the ranges in it hold.
  void finish_spans() {
    const std::vector<OpTimeline::Range>& ranges = timeline_.ranges();
    // A range has a lower number than those within it: from the highest down, each is whole before it is added to the
    // one around it.
    std::priority_queue<std::pair<uint32_t, size_t>> queue;
    for (size_t i = 0; i < spans_.size(); ++i) queue.emplace(spans_[i].range, i);
    for (; !queue.empty(); queue.pop()) {
      const RangeSpan inner = spans_[queue.top().second];
      const uint32_t parent = ranges[inner.range - 1].parent;
      if (parent == 0) continue;
      const size_t known = spans_.size();
      extend(span(parent, inner.stream_track), inner.start, inner.end);
      if (spans_.size() != known) queue.emplace(parent, known);
    }
    for (const RangeSpan& span : spans_) {
      trace_->spans.push_back({ranges[span.range - 1].id, span.stream_track, 1, span.start, span.end});
    }
    rows_.place_spans(trace_->spans);
  }

  // --- clocks -----------------------------------------------------------------------------------------------------

  // True if a device's records were moved.
  bool correct_clocks() {
    bool moved = false;
    const bool behind = behind_a_wait();
    for (Device& device : devices_) {
      Clock& clock = device.clock;
      clock.pairs = device.pairs;
      clock.earliest_ns = clock.pairs != 0 ? device.least_lead : 0;
      const bool doubt = clock.pairs != 0 && (device.least_lead < 0 || behind);
      if (!options_.align_clocks) {
        clock.reason = doubt ? "The device's clock is off, and was left so, for KINETO_SPYRE_CLOCK_ALIGN is off."
                             : "Alignment is off (KINETO_SPYRE_CLOCK_ALIGN).";
        continue;
      }
      if (!doubt && clock.pairs != 0) {
        clock.reason = "No work begins before its launch or ends after it was waited for: its times were kept.";
        continue;
      }
      std::vector<Bound> upper;
      std::vector<Bound> lower;
      collect_bounds(device, upper, lower);
      estimate_clock(upper, lower, &clock);
      if (clock.applied) {
        move_records(clock);
        moved = true;
      }
    }
    return moved;
  }

  void collect_bounds(Device& device, std::vector<Bound>& upper, std::vector<Bound>& lower) {
    items_.each([&](Item& item) {
      with_device_record(item, [&](const auto& record) {
        if (aiupti::device_id(record) != device.clock.device) return;
        const uint64_t correlation = aiupti::correlation_id(record);
        const Launch* launch = correlation != 0 ? launches_.find(correlation) : nullptr;
        if (launch == nullptr || launch->rank == 0) return;
        const auto start = static_cast<int64_t>(aiupti::start(record));
        const auto end = static_cast<int64_t>(aiupti::end(record));
        upper.push_back({start, start - launch->start});
        if (item.kind == Kind::kMemory) return;
        const int64_t waited = waited_until(device, aiupti::stream_id(record), *launch);
        if (waited != INT64_MAX) lower.push_back({end, end - waited});
      });
    });
  }

  void move_records(const Clock& clock) {
    items_.each([&](Item& item) {
      if (is_host(item.kind)) return;
      if (aiupti::device_id(item.record) != clock.device) return;
      const int64_t start = to_host(clock, static_cast<int64_t>(aiupti::start(item.record)));
      const int64_t end = to_host(clock, static_cast<int64_t>(aiupti::end(item.record)));
      aiupti::set_times(item.record, static_cast<uint64_t>(start), static_cast<uint64_t>(end));
    });
  }

 public:
  // Sentences about what the passes found; after make().
  void warn() {
    std::vector<std::string>& warnings = trace_->warnings;
    if (const uint64_t launches = launches_without_any_work(); launches != 0) {
      trace_->launches_without_work = launches;
      warnings.push_back("None of the device work of " + std::to_string(launches) +
                         " launching call(s) is here: libaiupti had handed over no record of device work when the "
                         "session ended.");
    }
    if (trace_->early != 0) {
      warnings.push_back(std::to_string(trace_->early) +
                         " piece(s) of device work begin before the call that launched "
                         "them; their times were kept. First: " +
                         describe(*first_early_) + ".");
    }
    if (trace_->long_kernels != 0) {
      warnings.push_back(std::to_string(trace_->long_kernels) +
                         " kernel(s) last longer than a second. First: " + describe(*first_long_) + ".");
    }
    if (trace_->tracks_exhausted != 0) {
      warnings.push_back(std::to_string(trace_->tracks_exhausted) +
                         " copies overlap more than the rows there are for them, so "
                         "they overlap in the trace.");
    }
    for (size_t kind = 0; kind < aiupti::kKinds; ++kind) {
      const Sizes& sizes = trace_->sizes[kind];
      const std::string name(aiupti::kind_name(static_cast<Kind>(kind)));
      if (sizes.seen > sizes.built) {
        warnings.push_back("This libaiupti writes " + name + " records of " + std::to_string(sizes.seen) +
                           " bytes, and this build knows " + std::to_string(sizes.built) +
                           ": the known fields were read. Rebuild kineto-spyre against the SDK's header to be sure.");
      } else if (sizes.seen != 0 && sizes.seen < sizes.built) {
        warnings.push_back("This libaiupti writes " + name + " records of " + std::to_string(sizes.seen) +
                           " bytes, and this build expects " + std::to_string(sizes.built) +
                           ": they were invalid. Rebuild kineto-spyre against the SDK's header "
                           "(LIBAIUPTI_INSTALL_DIR).");
      }
    }
    if (trace_->total_invalid() != 0) {
      std::string text = std::to_string(trace_->total_invalid()) + " record(s) were invalid:";
      const char* separator = " ";
      for (size_t i = 0; i < kInvalidReasons; ++i) {
        if (trace_->invalid[i] == 0) continue;
        text +=
            separator + std::to_string(trace_->invalid[i]) + " " + std::string(invalid_reason_name(static_cast<InvalidReason>(i)));
        separator = ", ";
      }
      warnings.push_back(text + ".");
    }
    if (trace_->unfinished_reads != 0) {
      warnings.push_back("libaiupti's walk over " + std::to_string(trace_->unfinished_reads) +
                         " buffer(s) broke off with an error or did not end; what it returned until then was kept.");
    }
    for (const Clock& clock : trace_->clocks) {
      if (!clock.applied) continue;
      warnings.push_back("The clock of device " + std::to_string(clock.device) + " was off by " +
                         std::to_string(clock.offset_ns) + " ns against the host's; its times were corrected.");
    }
  }

 private:
  // Calls that launched work, if there is no work at all: then it is late, or nobody records it.
  uint64_t launches_without_any_work() {
    constexpr auto bit = [](Kind kind) { return 1U << static_cast<unsigned>(kind); };
    constexpr uint32_t work = bit(Kind::kCompute) | bit(Kind::kMemcpy) | bit(Kind::kMemcpy2) | bit(Kind::kMemset);
    if ((kinds_seen_ & work) != 0 || !wanted(Category::kKernel)) return 0;
    uint64_t launches = 0;
    items_.each([&](const Item& item) {
      if (item.has(Item::kExcluded) || !is_host(item.kind)) return;
      const uint32_t cbid = aiupti::cbid(call_of(item));
      const std::string_view name = aiupti::known_cbid_name(cbid);
      if (name == "aiuMalloc" || name == "aiuResizeTensorAllocation") return;  // only records of memory follow
      launches += aiupti::launches_device_work(cbid) ? 1 : 0;
    });
    return launches;
  }

  static std::string describe(const Item& item) {
    if (item.kind == Kind::kCompute) {
      return '\'' + safe_text(aiupti::name(*aiupti::as<AIUpti_ActivityCompute>(item.record))) + '\'';
    }
    return std::string(aiupti::kind_name(item.kind)) + " with correlation id " +
           std::to_string(aiupti::correlation_id(item.record));
  }

  static constexpr size_t kCbids = 256;
  enum Trait : uint8_t { kKnown = 1, kLaunches = 2, kWaits = 4 };  // of a callback id
  static constexpr uint8_t kBestRank = 4;                          // a runtime call that launches
  static const std::array<uint8_t, kCbids>& traits_of_cbids() {
    static const auto all = [] {
      std::array<uint8_t, kCbids> traits{};
      for (uint32_t cbid = 0; cbid < kCbids; ++cbid) {
        if (aiupti::launches_device_work(cbid)) traits[cbid] |= kLaunches;
        if (aiupti::known_cbid_name(cbid) == "aiuScheduleWait") traits[cbid] |= kWaits;
        if (!aiupti::known_cbid_name(cbid).empty()) traits[cbid] |= kKnown;
      }
      return traits;
    }();
    return all;
  }
  static constexpr size_t kAhead = 16;  // records that are on their way from memory
  static constexpr int kErrors = 16;    // of a walker, in one buffer

  const Options& options_;
  ItemStore& items_;
  Trace* trace_;
  NextRecord next_;
  uint64_t window_length_;
  uint64_t low_, high_;            // times of reason
  uintptr_t least_ = 0, end_ = 0;  // of the buffer that is read: where its next record may begin
  OpTimeline timeline_;
  CorrelationTable launches_;
  const std::array<uint8_t, kCbids> traits_ = traits_of_cbids();
  uint32_t kinds_seen_ = 0;
  std::vector<Item*> helpers_;  // host calls of threads without notes
  std::vector<Item*> put_off_;  // device work that came before its launch, or has none
  std::vector<Wait> waits_;
  Caller caller_;
  std::unordered_map<int32_t, WaitList> thread_waits_;
  std::unordered_map<int64_t, int32_t> host_tracks_;
  std::deque<Device> devices_;
  Tracks rows_;
  LastRow last_row_;
  Counts counts_;
  bool again_ = false;       // device work has to be placed again
  uint32_t unnumbered_ = 0;  // device work without a correlation id
  std::vector<RangeSpan> spans_;
  std::unordered_map<uint64_t, size_t> span_at_;
  RangeSpan* last_span_ = nullptr;
  const Item* first_early_ = nullptr;
  const Item* first_long_ = nullptr;
};

}  // namespace

std::string_view category_name(Category category) {
  constexpr std::array<std::string_view, kCategories> names = {"kernel", "memcpy",  "memset",
                                                               "memory", "runtime", "driver"};
  return names[static_cast<size_t>(category)];
}

Category category_of(Kind kind) {
  switch (kind) {
    case Kind::kMemset:
      return Category::kMemset;
    case Kind::kMemory:
      return Category::kMemory;
    case Kind::kMemcpy:
    case Kind::kMemcpy2:
      return Category::kMemcpy;
    case Kind::kRuntime:
      return Category::kRuntime;
    case Kind::kDriver:
      return Category::kDriver;
    default:
      return Category::kKernel;
  }
}

std::string_view invalid_reason_name(InvalidReason refusal) {
  constexpr std::array<std::string_view, kInvalidReasons> names = {"start_zero",   "end_before_start", "unreasonable_time",
                                                             "unknown_kind", "shorter_record",   "malformed",
                                                             "duplicate",    "foreign_process",  "too_many_tracks"};
  return names[static_cast<size_t>(refusal)];
}

ItemStore::Block PlainStore::allocate() {
  memory_.emplace_back(4096);
  return {reinterpret_cast<std::byte*>(memory_.back().data()), memory_.back().size()};
}

uint64_t Trace::total_captured() const { return std::accumulate(captured.begin(), captured.end(), uint64_t{0}); }
uint64_t Trace::total_invalid() const { return std::accumulate(invalid.begin(), invalid.end(), uint64_t{0}); }

Times within(Times op, Times call) {
  constexpr int64_t kClocksDiffer = 1'000;
  if (op.begin - call.begin >= kClocksDiffer || call.end - op.end >= kClocksDiffer || op.end < op.begin) return call;
  return {std::clamp(call.begin, op.begin, op.end), std::clamp(call.end, op.begin, op.end)};
}

Trace make_trace(const Input& input, const Options& options, ItemStore& items) {
  Trace trace;
  Maker maker(input, options, items, &trace);
  maker.make(input.buffers);
  maker.warn();
  return trace;
}

}  // namespace kineto_spyre::trace
